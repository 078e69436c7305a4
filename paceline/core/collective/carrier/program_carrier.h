// ProgramCarrier: one collective in flight on this rank. Runs its program once for each segment, several
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
#include <vector>

#include "paceline/core/collective/call/members.h"
#include "paceline/core/collective/call/request.h"
#include "paceline/core/collective/call/traffic.h"
#include "paceline/core/collective/agreement/call_agreement.h"
#include "paceline/core/collective/carrier/segment.h"
#include "paceline/core/transport/link/lent_use.h"

namespace paceline::collective {

class ProgramCarrier final : private transport::SendListener {
 public:
  // `sequence` and `group` mark the frames. `members`, `posted_calls` and `traffic` outlive it.
  // `on_done` is called where a finished send, and none of the calls below, has ended the
  // operation; it may destroy this.
  ProgramCarrier(const Members& members, PostedCalls& posted_calls, std::uint32_t group,
            std::uint64_t sequence, Request request, Traffic& traffic,
            std::function<void()> on_done);
  ~ProgramCarrier() override;

  const Request& request() const { return request_; }
  std::uint64_t sequence() const { return mark_.sequence; }
  const CallAgreement& attendance() const { return attendance_; }  // who has called

  void start();                               // tells the other ranks of the call, begins
  Result<bool> look_at_post();                // whether something has changed
  Result<> peer_called(int peer, Call call);  // a call that matches
  Result<> assented(int peer, const transport::FrameHeader& header, Bytes payload);
  void ask_all();  // as CallAgreement::call_all, where it may

  std::vector<int> awaited() const;  // ranks whose messages the running segments wait for
  std::vector<int> readers() const;  // ranks that have not taken what was sent to them

  MutableBytes place(int peer, const transport::FrameHeader& header);
  Result<> received(int peer, const transport::FrameHeader& header, Bytes payload, bool placed);
  Result<> borrowed(int peer, const transport::FrameHeader& header, Bytes payload);

  bool done() const { return segments_left_ == 0 && attendance_.is_over(); }
  // Weights and notes, into the work. Once done.
  void publish();
  // The operation has failed, and the links were abandoned: once this has returned nobody writes to
  // its output.
  void give_up();

 private:
  void sent(std::uint64_t cookie) override;

  const CallRecord& roll() const { return attendance_.roll(); }
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
  bool use_view(const Segment& segment, const Slot& slot);
  bool may_write(Segment& segment, const Step& step) const;

  // The action that takes the message.
  const Action* expected(int peer, const transport::FrameHeader& header) const;
  bool has_right_length(Segment& segment, const Step& step, const Arrival& arrival) const;
  Result<> arrived(int peer, const transport::FrameHeader& header, Arrival arrival);
  transport::FrameHeader header(transport::FrameType type, int peer, const Segment& segment,
                                int number) const;

  const Members& members_;
  Request request_;
  const FrameMark mark_;
  Traffic& traffic_;
  const std::function<void()> on_done_;
  const bool wide_sums_;  // partial sums of 16-bit types are held in f32

  CallAgreement attendance_;
  transport::LentUse use_;   // of an action
  std::vector<int> unread_;  // by rank: messages sent to it from a slot, and not yet taken
  int segments_left_ = 0;
  int next_segment_ = 0;
  std::vector<bool> finished_;  // by segment
  ScratchPool scratch_;
  std::map<int, std::unique_ptr<Segment>> segments_;
};

}  // namespace paceline::collective
