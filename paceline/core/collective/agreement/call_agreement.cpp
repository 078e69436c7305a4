#include "paceline/core/collective/agreement/call_agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace paceline::collective {

using transport::FrameHeader;
using transport::FrameType;

CallAgreement::CallAgreement(const Members& members, PostedCalls& posted_calls, const FrameMark& mark,
                       Request& request, Traffic& traffic)
    : members_(members),
      posted_calls_(posted_calls),
      mark_(mark),
      request_(request),
      traffic_(traffic),
      roll_(members.size()),
      outputs_(members, request, roll_) {}

void CallAgreement::begin() {
  roll_.enter(members_.rank(), request_.call);
  posted_ = collective::is_posted(request_.route) && posted_calls_.ready();
  if (posted_) return posted_calls_.post(mark_.sequence, request_);
  const bool is_awaited_at_board =
      collective::is_posted(request_.route) && posted_calls_.others_may_post();
  if (is_awaited_at_board || !goes_by_assent()) return call_all();
  const FingerprintBarrier::Form form = members_.assent_form();
  assent_.emplace(form, members_.rank(), members_.size());
  if (request_.route == Route::gathered)
    gathered_.emplace(form, members_.rank(), members_.size(), request_);
  is_gathering_ = gathered_.has_value();
  if (request_.call.weighted)
    weights_.emplace(form, members_.rank(), members_.size(), request_.call.weight);
  give_assent();
}

void CallAgreement::call_all() {
  posted_ = false;
  has_asked_ = true;
  for (int peer = 0; peer < members_.size(); ++peer) {
    transport::Link* link = members_.link(peer);
    if (link == nullptr) continue;
    ++traffic_.announcements;
    request_.call.output = outputs_.lend_over(*link);
    link->send(mark_.header(FrameType::call), encode(request_.call));
  }
}

void CallAgreement::leave_board() {
  posted_calls_.give_up();
  call_all();
}

void CallAgreement::hear_call(int peer, Call call) {
  if (posted_) {
    posted_calls_.hear_call(peer, mark_.sequence);
    call_all();
  }
  roll_.enter(peer, std::move(call));
  if (assent_ && !has_asked_) call_all();
}

bool CallAgreement::heeds(const FrameHeader& header) {
  if (posted_) leave_board();
  if (header.descriptor == mark_.descriptor) return true;
  if (may_ask_all()) call_all();
  return false;
}

Result<PostedCalls::Progress> CallAgreement::look_at_post() {
  using Progress = PostedCalls::Progress;
  if (!posted_) return Progress::waiting;
  auto progress = posted_calls_.advance(mark_.sequence, request_);
  if (!progress) return progress;
  if (*progress == Progress::by_messages) call_all();
  if (*progress == Progress::done) {
    posted_ = false;
    for (int peer = 0; peer < members_.size(); ++peer) {
      if (peer != members_.rank()) roll_.enter(peer, request_.call);
    }
  }
  return progress;
}

std::vector<int> CallAgreement::missing() const {
  if (all_assent_) return {};
  std::vector<int> ranks = roll_.missing();
  if (posted_)
    std::erase_if(ranks, [&](int rank) { return posted_calls_.has_posted(rank, mark_.sequence); });
  // A rank that had called has told of all rounds before it left. Those that it tells know whether
  // it had, and fail for all where it had not.
  if (assent_) {
    std::erase_if(ranks,
                  [&](int rank) { return members_.has_departed(rank) && !assent_->awaits(rank); });
  }
  return ranks;
}

std::optional<std::vector<int>> CallAgreement::awaited() const {
  if (posted_) return posted_calls_.awaited();
  if (gathered_ || (weights_ && !roll_.is_complete())) return assent_->awaited();
  return std::nullopt;
}

// --- assent --------------------------------------------------------------------------------------

bool CallAgreement::goes_by_assent() const {
  if (request_.route == Route::gathered) return true;
  // Stores must be told where each output lies, and go from each rank to each anyway.
  const bool stores = request_.plan && request_.plan->stores && members_.share_memory();
  return members_.size() >= FingerprintBarrier::kFewestRanks && !stores && FingerprintBarrier::suits(request_);
}

void CallAgreement::give_assent() {
  while (const auto frame = assent_->next()) {
    const Bytes payload = gathered_  ? gathered_->told_in(*frame)
                          : weights_ ? weights_->told_in(*frame)
                                     : Bytes();
    const bool carries_data = gathered_ && !payload.empty();
    ++(carries_data ? traffic_.messages_sent : traffic_.announcements);
    if (carries_data) traffic_.bytes_sent += payload.size();
    members_.link(frame->rank)->send(mark_.header(FrameType::assent, frame->round), payload);
  }
}

bool CallAgreement::put_payload(const FingerprintBarrier::Frame& frame, Bytes payload) {
  if (gathered_) return gathered_->put(frame, payload);
  return weights_ ? weights_->put(frame, payload) : payload.empty();
}

// False: the frame must not come, has come before, or is not of the length that it must have.
bool CallAgreement::put_assent(int peer, std::uint32_t round, Bytes payload) {
  const auto frame = assent_->hear(peer, round);
  if (!frame || !put_payload(*frame, payload)) return false;
  give_assent();
  if (!assent_->is_complete()) return true;
  all_assent_ = true;
  if (!gathered_) return true;
  gathered_->finish();
  traffic_.bytes_reduced += gathered_->bytes_reduced();
  is_gathering_ = false;
  return true;
}

Result<> CallAgreement::hear_assent(int peer, const FrameHeader& header, Bytes payload) {
  if (posted_) leave_board();
  const bool needs_no_more = roll_.is_complete() && !gathered_;
  if (!assent_ || needs_no_more) return Done{};  // all are told by calls
  if (header.index == FingerprintBarrier::kOfAll) {
    all_assent_ = true;
    if (weights_) return Done{};  // they come with the assent: who knows of all has passed it on
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
  const bool knows_all = all_assent_ && (!weights_ || assent_->is_complete());
  if (knows_all && !roll_.is_complete())
    roll_.enter_all_like(request_.call, weights_ ? weights_->all() : std::vector<double>());
  return Done{};
}

}  // namespace paceline::collective
