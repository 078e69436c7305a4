// ActiveOperation: the collective of a group that is in flight on this rank: the agreement of the
// ranks that all have called it (agreement/), and the carrier that its route names (carrier/).
// THREAD: reactor's driver only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/collective/agreement/call_agreement.h"
#include "paceline/core/collective/carrier/carrier.h"
#include "paceline/core/collective/carrier/gathered_inputs.h"
#include "paceline/core/collective/engine/engine.h"
#include "paceline/core/transport/reactor/reactor.h"

namespace paceline::collective {

// The parts of a group that its operations use.
struct OperationContext {
  const Members& members;
  const std::uint32_t group;
  const std::string& group_name;
  transport::Reactor& reactor;
  PostingCarrier& posting;
  PostingCarrier* const kernels = nullptr;  // of devices; nullptr: members share no memory
  Engine* const engine;                     // nullptr: no route leads to one
  Traffic& traffic;
  // Gives the device the copy of a call's input to the host, and calls device_went_on() when it has
  // come.
  const std::function<Result<>(Request&)> stage;
  // Calls device_went_on() when the streams of a call's buffers have come to it.
  const std::function<void(const Request&)> await_streams;
  // Called where none of the operation's own methods has ended it; it may destroy the operation.
  const std::function<void()> on_done;
};

class ActiveOperation {
 public:
  // `context` outlives it.
  ActiveOperation(const OperationContext& context, std::uint64_t sequence, Request request);

  const Request& request() const { return request_; }
  std::uint64_t sequence() const { return agreement_.mark().sequence; }
  // "all_reduce f32[10] sum by ring (operation 12 of group 'world')": by what carries it now.
  std::string description() const;

  Result<> start();  // tells the other ranks of the call, begins
  // Goes on with the call that this rank has posted; `waiting` where it has posted none.
  Result<CallProgress> look_at_post();
  MutableBytes place(int peer, const transport::FrameHeader& header);
  Result<> received(int peer, const transport::FrameHeader& header, Bytes payload,
                    Delivery delivery);

  // A device has done what this waited for.
  Result<> device_went_on() { return go_on(); }

  // Whether it helps to ask all ranks what they have called.
  bool may_ask_all() const { return agreement_.may_ask_all(); }
  Result<> ask_all();
  std::vector<int> missing() const;  // ranks that have not called
  AwaitedRanks awaited() const;      // ranks that have, and on which it waits

  bool done() const;
  // Weights and notes, into the work. Once done.
  void publish();
  // The operation has failed, and the links were abandoned: once this has returned nobody writes to
  // its output.
  void give_up();

 private:
  bool is_posted() const { return carrier_ == &posting_ && !is_carried_; }
  Result<> leave_devices();
  Result<> carry_by_messages();
  Result<> leave_post(int peer);
  Result<> called(int peer, Bytes payload);
  Result<> assented(int peer, const transport::FrameHeader& header, Bytes payload);
  bool is_offered() const { return request_.route == Route::offered; }
  Result<CallProgress> await_offers();
  Result<> give_to_engine();
  Result<> turn_down();
  Result<CallProgress> advance();
  Result<> go_on();

  const OperationContext& context_;
  Request request_;
  PostingCarrier& posting_;  // if its route is posted
  CallAgreement agreement_;
  std::optional<GatheredInputs> inputs_;  // travel with the agreement, in place of a program
  std::unique_ptr<Carrier> own_;          // of this operation alone
  Carrier* carrier_ = nullptr;
  bool is_carried_ = false;
  bool awaits_streams_ = false;
};

}  // namespace paceline::collective
