#include "paceline/core/pipeline/run/rank_progress.h"

#include <utility>

#include "paceline/core/base/check.h"

namespace paceline::pipeline {

RankProgress::RankProgress(Placement placement, int ahead)
    : placement_(std::move(placement)), ahead_(static_cast<std::size_t>(ahead)) {}

void RankProgress::append(std::span<const Operation> operations) {
  list_.insert(list_.end(), operations.begin(), operations.end());
}

void RankProgress::expect(const Operation& operation) {
  expected_.push_back(operation);
}

void RankProgress::forget(const Transfer& transfer) {
  std::erase(expected_, transfer.operation());
  posted_.erase(transfer);
}

std::optional<Transfer> RankProgress::receive_of(const Operation& operation) const {
  auto transfer = transfer_before(placement_, operation);
  return transfer && !posted_.contains(*transfer) ? transfer : std::nullopt;
}

std::optional<Transfer> RankProgress::next_receive() {
  const auto first = is_done() ? std::nullopt : transfer_before(placement_, next());
  const bool has_first = first && posted_.contains(*first);
  const bool is_urgent = first && !has_first;  // whatever is posted, nothing runs before it comes
  if (!is_urgent && posted_.size() >= ahead_ + (has_first ? 1 : 0)) return std::nullopt;
  std::optional<Transfer> found;
  for (; !found && looked_ < list_.size(); ++looked_) found = receive_of(list_[looked_]);
  while (!found && !expected_.empty()) {
    found = receive_of(expected_.front());
    expected_.pop_front();
  }
  if (found) posted_.insert(*found);
  return found;
}

void RankProgress::arrived(const Transfer& transfer) {
  PACELINE_CHECK(posted_.contains(transfer), "{} arrived, which was not posted", text_of(transfer));
  arrived_.insert(transfer);
}

std::optional<Transfer> RankProgress::awaited() const {
  const auto transfer = transfer_before(placement_, next());
  return transfer && !arrived_.contains(*transfer) ? transfer : std::nullopt;
}

Operation RankProgress::begin() {
  const Operation operation = list_.front();
  if (const auto transfer = transfer_before(placement_, operation)) {
    PACELINE_CHECK(arrived_.erase(*transfer) == 1, "{} begins before {} has arrived",
                   text_of(operation), text_of(*transfer));
    posted_.erase(*transfer);
  }
  list_.pop_front();
  if (looked_ > 0) --looked_;
  return operation;
}

}  // namespace paceline::pipeline
