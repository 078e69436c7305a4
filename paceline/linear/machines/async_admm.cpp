#include "paceline/linear/machines/async_admm.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "paceline/core/base/check.h"

namespace paceline::linear {

using machine::Actions;
using machine::Message;
using machine::Send;
using machine::Time;

namespace {

std::vector<std::byte> payload_of_weights(std::span<const double> weights) {
  const auto bytes = std::as_bytes(weights);
  return {bytes.begin(), bytes.end()};
}

std::vector<double> weights_of_payload(const Message& message) {
  std::vector<double> weights(message.payload.size() / sizeof(double));
  if (!weights.empty())
    std::memcpy(weights.data(), message.payload.data(), weights.size() * sizeof(double));
  return weights;
}

}  // namespace

AsyncAdmm::AsyncAdmm(int rank, int ranks, std::size_t width, const AdmmPace& pace,
                     std::int64_t updates, AdmmMaster::Consensus consensus)
    : rank_(rank), ranks_(ranks), updates_(updates), next_(width), common_(width) {
  PACELINE_CHECK(updates >= 1, "a round of {} updates: it has 1 or more", updates);
  if (rank == 0) master_.emplace(ranks, width, pace, std::move(consensus));
}

Message AsyncAdmm::begin() {
  return {.kind = kBegin};
}

bool AsyncAdmm::is_settled() const {
  const std::lock_guard lock(mutex_);
  return next_ || has_end() || lost_;
}

std::optional<std::vector<double>> AsyncAdmm::take() {
  const std::lock_guard lock(mutex_);
  if (!has_end()) return std::exchange(next_, std::nullopt);
  common_ = std::move(ends_.extract(rounds_taken_++).mapped());
  return std::nullopt;
}

Message AsyncAdmm::contribution(std::span<const double> x_plus_u) {
  return {.kind = kContribute, .payload = payload_of_weights(x_plus_u)};
}

std::vector<double> AsyncAdmm::common() const {
  const std::lock_guard lock(mutex_);
  return common_;
}

// The ends of rounds that came before the loss are taken first.
std::optional<int> AsyncAdmm::lost() const {
  const std::lock_guard lock(mutex_);
  return has_end() ? std::nullopt : lost_;
}

std::optional<AdmmMaster> AsyncAdmm::master() const {
  const std::lock_guard lock(mutex_);
  return master_;
}

Message AsyncAdmm::ask_who_is_missing() {
  const std::lock_guard lock(mutex_);
  missing_ranks_.ask();
  return {.kind = kWho};
}

coordination::MissingRanks AsyncAdmm::missing_ranks() const {
  const std::lock_guard lock(mutex_);
  return missing_ranks_;
}

Actions AsyncAdmm::on_message(int from, const Message& message, Time) {
  const std::lock_guard lock(mutex_);
  switch (message.kind) {
    case kBegin:
      if (!master_) return {};
      ++rounds_begun_;
      updates_left_ = updates_;
      return missing_ ? give_up(*missing_) : update_while_possible();
    case kContribute: return {Send{0, {.kind = kArrive, .payload = message.payload}}};
    case kArrive: return master_ ? arrive(from, message) : Actions{};
    case kCommon: next_ = weights_of_payload(message); return {};
    case kEndAndCommon: next_ = weights_of_payload(message); [[fallthrough]];
    case kEnd: ends_[message.index] = weights_of_payload(message); return {};
    case kLost: lost_ = static_cast<int>(message.index); return {};
    case kWho: return master_ ? say_who_is_missing(from) : Actions{Send{0, message}};
    case kStill: missing_ranks_.hear(message); return {};
    default: return {};
  }
}

Actions AsyncAdmm::arrive(int from, const Message& message) {
  if (lost_) return {};
  std::vector<double> contribution = weights_of_payload(message);
  if (contribution.size() != master_->width()) return give_up(from);  // its data have another width
  master_->receive(from, std::move(contribution));
  return update_while_possible();
}

// A round begins with rank 0, which may still be elsewhere.
Actions AsyncAdmm::say_who_is_missing(int to) const {
  const std::vector<int> missing = updates_left_ > 0 ? master_->awaited() : std::vector<int>{0};
  return {Send{to, coordination::MissingRanks::answer(kStill, missing)}};
}

Actions AsyncAdmm::update_while_possible() {
  Actions actions;
  while (updates_left_ > 0 && master_->can_update()) {
    const std::vector<int> arrived = master_->update();
    if (--updates_left_ == 0) {
      append(actions, end_round(arrived));
      break;
    }
    for (const int worker : arrived)
      actions.push_back(
          Send{worker, {.kind = kCommon, .payload = payload_of_weights(master_->common())}});
  }
  return actions;
}

Actions AsyncAdmm::end_round(std::span<const int> arrived) {
  Actions actions;
  for (int rank = 0; rank < ranks_; ++rank) {
    const bool goes_on = std::ranges::find(arrived, rank) != arrived.end();
    actions.push_back(Send{rank,
                           {.kind = goes_on ? kEndAndCommon : kEnd,
                            .index = rounds_begun_ - 1,
                            .payload = payload_of_weights(master_->common())}});
  }
  return actions;
}

// A rank that ends after its last round is no loss to the others, which may still hear of theirs.
Actions AsyncAdmm::on_lost(int peer, Time) {
  const std::lock_guard lock(mutex_);
  if (!master_) {
    if (peer == 0 && !lost_) lost_ = 0;
    return {};
  }
  if (!missing_) missing_ = peer;
  return updates_left_ > 0 ? give_up(peer) : Actions{};
}

Actions AsyncAdmm::give_up(int lost) {
  if (lost_) return {};
  lost_ = lost;
  updates_left_ = 0;
  Actions actions;
  for (int rank = 1; rank < ranks_; ++rank)
    actions.push_back(Send{rank, {.kind = kLost, .index = static_cast<std::uint32_t>(lost)}});
  return actions;
}

}  // namespace paceline::linear
