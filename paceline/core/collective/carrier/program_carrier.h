// ProgramCarrier: one collective in flight on this rank. Runs its program once for each segment,
// several segments at a time, on any kind of link.
//
// Rounds of one segment follow each other; a step waits for its message, and before it writes a
// slot, for the sends that still read it. Until every rank has called, only short messages travel
// and no output is written, so that a mismatch leaves all outputs as they were. Sends never hold a
// round up. Where links share memory, long messages are references that reductions read in place,
// and stores write the peer's output. An average is scaled by the step that completes a sum, while
// it is in the cache.
//
// Ranks are those of the group. THREAD: reactor's driver only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "paceline/core/collective/agreement/call_agreement.h"
#include "paceline/core/collective/carrier/carrier.h"
#include "paceline/core/collective/carrier/segment.h"
#include "paceline/core/collective/carrier/stored_outputs.h"
#include "paceline/core/transport/link/region_lease.h"

namespace paceline::collective {

class ProgramCarrier final : public Carrier, private transport::SendListener {
 public:
  // All outlive it. `on_done` is called where a finished send, and none of the calls below, has
  // ended the operation; it may destroy this.
  ProgramCarrier(const Members& members, CallAgreement& agreement, Traffic& traffic,
                 std::function<void()> on_done);

  Result<> begin(std::uint64_t sequence, Request& request) override;
  MutableBytes place(int peer, const transport::FrameHeader& header) override;
  Result<> received(int peer, const transport::FrameHeader& header, Bytes payload,
                    Delivery delivery) override;
  Result<CallProgress> advance() override;
  AwaitedRanks awaited() const override;
  void give_up() override { agreement_.take_back_output(); }

 private:
  void sent(std::uint64_t cookie) override;

  const CallRecord& record() const { return agreement_.record(); }
  double factor_of(const Step& step) const;  // what the step multiplies its result by

  Segment& activate(int number);
  Result<> advance(Segment& segment);
  bool input_is_here(int segment) const;
  bool may_begin_next() const;
  Result<> let_go_of_output(int segment);
  Result<> advance_all();
  void end_round(Segment& segment);
  Result<bool> attempt(Segment& segment, std::size_t action);
  bool attempt_send(Segment& segment, const Action& action);
  bool attempt_receive(Segment& segment, const Action& action);
  bool attempt_local(Segment& segment, const Action& action);
  bool reduce_and_store(Segment& segment, const Action& action);
  void combine(ConstBuffer left, ConstBuffer right, Buffer target, double factor);
  void give_view_back(Segment& segment, const Slot& slot);
  bool use_view(const Segment& segment, const Slot& slot);
  bool may_write(Segment& segment, const Step& step) const;

  // The action that takes the message.
  const Action* expected(int peer, const transport::FrameHeader& header) const;
  bool has_right_length(Segment& segment, const Step& step, const Arrival& arrival) const;
  Result<> arrived(int peer, const transport::FrameHeader& header, Arrival arrival);
  transport::FrameHeader header(transport::FrameType type, int peer, const Segment& segment,
                                int number) const;

  const Members& members_;
  CallAgreement& agreement_;
  Traffic& traffic_;
  const std::function<void()> on_done_;
  Request* request_ = nullptr;
  std::optional<StoredOutputs> outputs_;
  bool wide_sums_ = false;  // partial sums of 16-bit types are held in f32

  transport::RegionLease use_;  // of an action
  std::vector<int> unread_;     // by rank: messages sent to it from a slot, and not yet taken
  int segments_left_ = 0;
  int next_segment_ = 0;
  std::vector<bool> finished_;  // by segment
  ScratchPool scratch_;
  std::map<int, std::unique_ptr<Segment>> segments_;
};

}  // namespace paceline::collective
