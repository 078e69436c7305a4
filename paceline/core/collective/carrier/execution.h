// Execution: one collective in flight on this rank. Runs its program once for each segment, several
// segments at a time, on any kind of link.
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

#include "paceline/core/collective/call/assent.h"
#include "paceline/core/collective/call/members.h"
#include "paceline/core/collective/call/request.h"
#include "paceline/core/collective/call/roll.h"
#include "paceline/core/collective/call/traffic.h"
#include "paceline/core/collective/carrier/gathered_inputs.h"
#include "paceline/core/collective/carrier/posted_calls.h"
#include "paceline/core/collective/carrier/segment.h"
#include "paceline/core/transport/link/lent_use.h"

namespace paceline::collective {

class Execution final : private transport::SendListener {
 public:
  // `sequence` and `group` mark the frames. `members`, `posted_calls` and `traffic` outlive it.
  // `on_done` is called where a finished send, and none of the calls below, has ended the
  // operation; it may destroy this.
  Execution(const Members& members, PostedCalls& posted_calls, std::uint32_t group,
            std::uint64_t sequence, Request request, Traffic& traffic,
            std::function<void()> on_done);
  ~Execution() override;

  const Request& request() const { return request_; }
  std::uint64_t sequence() const { return sequence_; }

  void start();                 // tells the other ranks of the call, begins
  Result<bool> look_at_post();  // whether something has changed
  bool works_posted() const { return posted_ && posted_calls_.works(); }
  Result<> peer_called(int peer, Call call);  // a call that matches
  // `peer` and ranks before it have called what the frame says; the payload is their inputs, where
  // the call gathers them.
  Result<> assented(int peer, const transport::FrameHeader& header, Bytes payload);
  // All are known to have called the same, though not from the call of each.
  bool knows_by_assent() const { return assent_ && roll_.is_complete() && all_assent_; }
  // Tells every rank all of the call, so that each learns from the others' answers who has called
  // what. It helps where assent stays out.
  void ask_all();
  bool may_ask_all() const { return assent_ && !has_asked_ && !roll_.is_complete(); }
  const Roll& roll() const { return roll_; }  // who has called
  std::vector<int> missing() const;           // ranks that have not called
  std::vector<int> awaited() const;           // ranks whose messages the running segments wait for
  std::vector<int> readers() const;           // ranks that have not taken what was sent to them

  MutableBytes place(int peer, const transport::FrameHeader& header);
  Result<> received(int peer, const transport::FrameHeader& header, Bytes payload, bool placed);
  Result<> borrowed(int peer, const transport::FrameHeader& header, Bytes payload);

  bool done() const {
    return roll_.is_complete() && segments_left_ == 0 && !posted_calls_.is_sending();
  }
  // Weights and notes, into the work. Once done.
  void publish();
  // The operation has failed, and the links were abandoned: once this has returned nobody writes to
  // its output.
  void give_up();

 private:
  void sent(std::uint64_t cookie) override;

  void call_all();
  void leave_board();  // posts no more, and calls
  bool goes_by_assent() const;
  void give_assent();
  bool hear_assent(int peer, std::uint32_t round, Bytes payload);
  bool heeds(const transport::FrameHeader& header);
  void scale_input();  // once, when every rank has called: it writes the output
  double factor_of(const Step& step) const;  // what the step multiplies its result by

  Segment& activate(int number);
  Result<> advance(Segment& segment);
  Result<> advance_all();
  void end_round(Segment& segment);
  Result<bool> attempt(Segment& segment, std::size_t action);
  bool attempt_send(Segment& segment, const Action& action);
  bool attempt_receive(Segment& segment, const Action& action);
  bool attempt_local(Segment& segment, const Action& action);
  bool reduce_and_store(Segment& segment, const Action& action);
  void combine(ConstBuffer left, ConstBuffer right, Buffer target, double factor);
  void give_view_back(Segment& segment, const Slot& slot);
  // The part of the peer's output that a store writes, and the parts at its edges, where the peer
  // cannot take the memory back: those travel with the frame.
  struct Window {
    MutableBytes bytes;
    std::size_t head = 0, tail = 0;
  };
  Window peers_output(const Segment& segment, const Step& store) const;
  // The same of own output, all of it, which a peer stores to.
  Window own_output(Segment& segment, const Slot& target) const;
  void take_edges(const Window& output, Bytes edges) const;
  bool use_view(const Segment& segment, const Slot& slot);
  bool may_write(Segment& segment, const Step& step) const;

  const Action* expected(
      int peer, const transport::FrameHeader& header) const;  // the action that takes the message
  bool has_right_length(Segment& segment, const Step& step, const Arrival& arrival) const;
  Result<> arrived(int peer, const transport::FrameHeader& header, Arrival arrival);
  transport::FrameHeader header(transport::FrameType type, int peer, const Segment& segment,
                                int number) const;

  const Members& members_;
  PostedCalls& posted_calls_;
  const std::uint32_t group_;
  const std::uint64_t sequence_;
  Request request_;
  Traffic& traffic_;
  const std::function<void()> on_done_;
  const std::uint64_t descriptor_;
  const bool wide_sums_;  // partial sums of 16-bit types are held in f32

  Roll roll_;
  std::optional<transport::Lent> lent_;  // own output, if a peer was told where it lies
  transport::LentUse use_;               // of an action
  bool posted_ = false;                  // and not called
  std::optional<Assent> assent_;         // in place of calls to all
  bool all_assent_ = false;
  std::optional<GatheredInputs> gathered_;  // travel with the assent, in place of a program
  bool has_asked_ = false;                  // every rank has been sent the call
  std::vector<int> unread_;  // by rank: messages sent to it from a slot, and not yet taken
  int segments_left_ = 0;
  int next_segment_ = 0;
  std::vector<bool> finished_;  // by segment
  ScratchPool scratch_;
  std::map<int, std::unique_ptr<Segment>> segments_;
};

}  // namespace paceline::collective
