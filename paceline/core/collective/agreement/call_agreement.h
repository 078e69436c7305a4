// CallAgreement: how the ranks of a group learn that all of them have made the same call. This rank
// gives its assent to some ranks (fingerprint_barrier.h), or sends its call to every rank. The
// first costs less, and names nobody: where calls differ or a rank stays away, all come back to
// calls. A carrier that needs neither (carrier/carrier.h) tells when all have called.
//
// Ranks are those of the group. THREAD: reactor's driver only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/collective/agreement/call_record.h"
#include "paceline/core/collective/agreement/fingerprint_barrier.h"
#include "paceline/core/collective/agreement/frame_mark.h"
#include "paceline/core/collective/agreement/gathered_weights.h"
#include "paceline/core/collective/call/members.h"
#include "paceline/core/collective/call/request.h"
#include "paceline/core/collective/call/traffic.h"

namespace paceline::collective {

class CallAgreement {
 public:
  // All outlive it. Peers are told by the call where they find `request`'s output.
  CallAgreement(const Members& members, const std::string& group_name, std::uint32_t group,
                std::uint64_t sequence, Request& request, Traffic& traffic);

  // Whether this rank may give its assent in place of its call. REQUIRES: begin was not called.
  bool suits_barrier() const;
  // Gives this rank's assent. `inputs`: travel with it and come to others' by it; it outlives this.
  void begin_barrier(BarrierCargo* inputs = nullptr);
  // Tells every rank all of the call, so that each learns from the others' answers who has called
  // what. It helps where assent stays out.
  void call_all();
  bool may_ask_all() const { return barrier_ && !has_asked_ && !record_.is_complete(); }
  // The carrier has learnt that every rank has made the same call.
  void all_have_called() { record_.enter_all_like(request_.call); }

  // The call that a peer has sent, if it matches those that have come; nothing where this rank
  // knows already that all have called, and has answered so. Then it is to be given to on_call.
  Result<std::optional<Call>> check_call(int peer, Bytes payload) const;
  void on_call(int peer, Call call);
  // `payload`: what the barrier carries of the peer and of ranks before it.
  Result<> on_assent(int peer, const transport::FrameHeader& header, Bytes payload);
  // Whether a message is of the call that this rank has made. One of another is dropped: no rank
  // ends the operation before the calls have told who differs.
  bool accepts(const transport::FrameHeader& header);

  const FrameMark& mark() const { return mark_; }
  const CallRecord& record() const { return record_; }  // who has called
  bool barrier_is_complete() const { return barrier_ && barrier_->is_complete(); }
  std::vector<int> missing() const;  // ranks that have not called
  // The ranks whose inputs or weights are awaited; nothing where a carrier brings all data.
  std::optional<std::vector<int>> awaited() const;
  std::string where() const;  // "operation 12 of group 'world'"

  // This rank's output, if a peer was told where it lies.
  const std::optional<transport::SharedRegion>& shared_output() const { return shared_output_; }
  // Once this has returned nobody writes to own output.
  void take_back_output();

 private:
  transport::SharedRegion share_output_over(transport::Link& link);
  void give_assent();
  bool put_assent(int peer, std::uint32_t round, Bytes payload);
  BarrierCargo* cargo() { return weights_ ? &*weights_ : inputs_; }

  const Members& members_;
  const std::string& group_name_;
  const FrameMark mark_;
  Request& request_;
  Traffic& traffic_;

  CallRecord record_;
  std::optional<transport::SharedRegion> shared_output_;
  std::optional<FingerprintBarrier> barrier_;  // in place of calls to all
  bool all_assent_ = false;
  std::optional<GatheredWeights> weights_;  // of a weighted average
  BarrierCargo* inputs_ = nullptr;
  bool has_asked_ = false;  // every rank has been sent the call
};

// Tells a peer, which has sent its call, that all have called the same.
void confirm_all(const Members& members, int peer, std::uint32_t group, std::uint64_t sequence);

}  // namespace paceline::collective
