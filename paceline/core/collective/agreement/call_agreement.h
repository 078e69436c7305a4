// CallAgreement: how the ranks of a group learn that all of them have made the same call. This rank
// posts its call where all can see it (carrier.h), or gives its assent to some ranks
// (agreement/fingerprint_barrier.h), or else sends its call to every rank. The first two cost less, and name nobody:
// where calls differ or a rank stays away, all come back to calls.
//
// Ranks are those of the group. THREAD: reactor's driver only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/core/collective/agreement/fingerprint_barrier.h"
#include "paceline/core/collective/call/members.h"
#include "paceline/core/collective/call/request.h"
#include "paceline/core/collective/agreement/call_record.h"
#include "paceline/core/collective/call/traffic.h"
#include "paceline/core/collective/agreement/frame_mark.h"
#include "paceline/core/collective/carrier/gathered_inputs.h"
#include "paceline/core/collective/agreement/gathered_weights.h"
#include "paceline/core/collective/carrier/carrier.h"
#include "paceline/core/collective/carrier/stored_outputs.h"

namespace paceline::collective {

class CallAgreement {
 public:
  // All outlive it. Peers are told by the call where they find `request`'s output.
  CallAgreement(const Members& members, PostedCalls& posted_calls, const FrameMark& mark,
             Request& request, Traffic& traffic);

  // Tells the others of the call, by the cheapest way that it can go.
  void begin();
  void call_all();
  // Tells every rank all of the call, so that each learns from the others' answers who has called
  // what. It helps where assent stays out.
  bool may_ask_all() const { return assent_ && !has_asked_ && !roll_.is_complete(); }

  // A peer has made a call, which matches.
  void hear_call(int peer, Call call);
  // `payload`: the inputs of the peer and of ranks before it, where the call gathers them.
  Result<> hear_assent(int peer, const transport::FrameHeader& header, Bytes payload);
  // Whether a message is of the call that this rank has made. One of another is dropped: no rank
  // ends the operation before the calls have told who differs.
  bool heeds(const transport::FrameHeader& header);
  // Goes on with the post, if there is one. After `by_messages` this rank has called all.
  Result<PostedCalls::Progress> look_at_post();

  const CallRecord& roll() const { return roll_; }  // who has called
  StoredOutputs& outputs() { return outputs_; }
  const StoredOutputs& outputs() const { return outputs_; }
  bool is_posted() const { return posted_; }  // and not called
  bool works_posted() const { return posted_ && posted_calls_.works(); }
  // All are known to have called the same, though not from the call of each.
  bool knows_by_assent() const { return assent_ && roll_.is_complete() && all_assent_; }
  // All have called, and nothing that travels in place of a program is under way.
  bool is_over() const {
    return roll_.is_complete() && !is_gathering_ && !posted_calls_.is_sending();
  }
  std::vector<int> missing() const;  // ranks that have not called
  // The ranks whose posts or inputs are awaited; nothing where a program carries the operation.
  std::optional<std::vector<int>> awaited() const;

 private:
  bool goes_by_assent() const;
  void leave_board();  // posts no more, and calls
  void give_assent();
  bool put_assent(int peer, std::uint32_t round, Bytes payload);
  bool put_payload(const FingerprintBarrier::Frame& frame, Bytes payload);

  const Members& members_;
  PostedCalls& posted_calls_;
  const FrameMark& mark_;
  Request& request_;
  Traffic& traffic_;

  CallRecord roll_;
  StoredOutputs outputs_;
  bool posted_ = false;
  std::optional<FingerprintBarrier> assent_;  // in place of calls to all
  bool all_assent_ = false;
  std::optional<GatheredInputs> gathered_;  // travel with the assent, in place of a program
  std::optional<GatheredWeights> weights_;  // travel with the assent of a weighted average
  bool is_gathering_ = false;
  bool has_asked_ = false;  // every rank has been sent the call
};

}  // namespace paceline::collective
