#include "paceline/core/collective/agreement/call_agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "paceline/core/collective/call/collective_frames.h"
#include "paceline/core/collective/staging/staged_call.h"

namespace paceline::collective {

using transport::FrameHeader;

CallAgreement::CallAgreement(const Members& members, const std::string& group_name,
                             std::uint32_t group, std::uint64_t sequence, Request& request,
                             Traffic& traffic)
    : members_(members),
      group_name_(group_name),
      mark_{group, sequence, fingerprint(request.call)},
      request_(request),
      traffic_(traffic),
      record_(members.size()) {
  record_.enter(members_.rank(), request_.call);
}

std::string CallAgreement::where() const {
  return fmt::format("operation {} of group '{}'", mark_.sequence, group_name_);
}

// --- calls to all --------------------------------------------------------------------------------

void CallAgreement::call_all() {
  has_asked_ = true;
  for (int peer = 0; peer < members_.size(); ++peer) {
    transport::Link* link = members_.link(peer);
    if (link == nullptr) continue;
    ++traffic_.announcements;
    request_.call.output = share_output_over(*link);
    link->send(mark_.header(frame::kCall), encode(request_.call));
  }
}

transport::SharedRegion CallAgreement::share_output_over(transport::Link& link) {
  const MutableBytes output = request_.output.bytes();
  const bool is_on_host = !request_.staged || request_.staged->is_staged();
  if (!request_.plan || !is_on_host || !link.remote_of(output)) return {};
  if (!shared_output_) shared_output_ = members_.generation().segments().share(output);
  return shared_output_.value_or(transport::SharedRegion{});
}

void CallAgreement::take_back_output() {
  if (shared_output_) members_.generation().take_back(*shared_output_);
}

// The call is compared with this rank's own; where each pair of ranks has something to agree in, it
// is compared with every call that has come: nobody may begin before all pairs do.
Result<std::optional<Call>> CallAgreement::check_call(int peer, Bytes payload) const {
  if (barrier_ && record_.is_complete() && all_assent_) {
    confirm_all(members_, peer, mark_.group, mark_.sequence);
    return std::optional<Call>();
  }
  auto theirs = decode_call(payload);
  if (!theirs || record_.call_of(peer)) {
    return members_.failure(Fault::io, fmt::format("{} sent a malformed call", members_.name(peer)),
                            {peer});
  }
  const bool pairwise = theirs->operation == Operation::all_to_all;
  for (int other = pairwise ? 0 : members_.rank();
       other < (pairwise ? members_.size() : members_.rank() + 1); ++other) {
    const auto& call = record_.call_of(other);
    if (!call || matches(*call, other, *theirs, peer)) continue;
    const int low = std::min(peer, other), high = std::max(peer, other);
    return members_.failure(
        Fault::mismatch,
        fmt::format("the ranks do not do the same: in {} {} called {}, {} called {}; every rank "
                    "must call the same operations in the same order with matching arguments",
                    where(), members_.name(low), to_string(low == peer ? *theirs : *call),
                    members_.name(high), to_string(high == peer ? *theirs : *call)),
        {low, high});
  }
  return theirs;
}

void CallAgreement::on_call(int peer, Call call) {
  record_.enter(peer, std::move(call));
  if (barrier_ && !has_asked_) call_all();
}

bool CallAgreement::accepts(const FrameHeader& header) {
  if (header.descriptor == mark_.descriptor) return true;
  if (may_ask_all()) call_all();
  return false;
}

// --- the barrier ---------------------------------------------------------------------------------

bool CallAgreement::suits_barrier() const {
  if (request_.route == Route::gathered) return true;
  const Call& call = request_.call;
  // Stores must be told where each output lies, and go from each rank to each anyway. Notes travel
  // with the call. The counts of an all_to_all differ from rank to rank and are compared in pairs.
  const bool stores = request_.plan && request_.plan->stores && members_.share_memory();
  const bool is_pairwise = call.operation == Operation::all_to_all && !call.counts.empty();
  return members_.size() >= FingerprintBarrier::kFewestRanks && !stores && call.note.empty() &&
         !is_pairwise && request_.route != Route::engine && request_.route != Route::offered;
}

void CallAgreement::begin_barrier(BarrierCargo* inputs) {
  const auto form = FingerprintBarrier::form_of(members_);
  barrier_.emplace(form, members_.rank(), members_.size());
  inputs_ = inputs;
  if (request_.call.weighted)
    weights_.emplace(form, members_.rank(), members_.size(), request_.call.weight);
  give_assent();
}

void CallAgreement::give_assent() {
  while (const auto next = barrier_->next()) {
    const Bytes payload = cargo() == nullptr ? Bytes() : cargo()->told_in(*next);
    const bool carries_data = inputs_ != nullptr && !payload.empty();
    ++(carries_data ? traffic_.messages_sent : traffic_.announcements);
    if (carries_data) traffic_.bytes_sent += payload.size();
    members_.link(next->rank)->send(mark_.header(frame::kAssent, next->round), payload);
  }
}

// False: the frame must not come, has come before, or is not of the length that it must have.
bool CallAgreement::put_assent(int peer, std::uint32_t round, Bytes payload) {
  const auto frame = barrier_->hear(peer, round);
  if (!frame) return false;
  if (cargo() == nullptr ? !payload.empty() : !cargo()->put(*frame, payload)) return false;
  give_assent();
  all_assent_ = all_assent_ || barrier_->is_complete();
  return true;
}

Result<> CallAgreement::on_assent(int peer, const FrameHeader& header, Bytes payload) {
  const bool needs_no_more = record_.is_complete() && inputs_ == nullptr;
  if (!barrier_ || needs_no_more) return Done{};  // all are told by calls
  if (header.index == FingerprintBarrier::kOfAll) {
    all_assent_ = true;
    if (weights_) return Done{};  // they come with the assents: who knows of all has passed it on
  } else if (header.descriptor != mark_.descriptor) {
    if (may_ask_all()) call_all();  // the answers will tell who differs
    return Done{};
  } else if (!put_assent(peer, header.index, payload)) {
    return members_.failure(
        Fault::io,
        fmt::format(
            "{} sent assent {} of operation {} twice, out of place or with {} bytes: a bug, "
            "please report it",
            members_.name(peer), header.index, mark_.sequence, payload.size()),
        {peer});
  }
  const bool knows_all = all_assent_ && (!weights_ || barrier_->is_complete());
  if (knows_all && !record_.is_complete())
    record_.enter_all_like(request_.call, weights_ ? weights_->all() : std::vector<double>());
  return Done{};
}

std::vector<int> CallAgreement::missing() const {
  if (all_assent_) return {};
  std::vector<int> ranks = record_.missing();
  // A rank that had called has told of all rounds before it left. Those that it tells know whether
  // it had, and fail for all where it had not.
  if (barrier_) {
    std::erase_if(ranks,
                  [&](int rank) { return members_.has_departed(rank) && !barrier_->awaits(rank); });
  }
  return ranks;
}

std::optional<std::vector<int>> CallAgreement::awaited() const {
  if (inputs_ != nullptr || (weights_ && !record_.is_complete())) return barrier_->awaited();
  return std::nullopt;
}

void confirm_all(const Members& members, int peer, std::uint32_t group, std::uint64_t sequence) {
  members.link(peer)->send({.type = frame::kAssent,
                            .sequence = sequence,
                            .index = FingerprintBarrier::kOfAll,
                            .group = group},
                           {});
}

}  // namespace paceline::collective
