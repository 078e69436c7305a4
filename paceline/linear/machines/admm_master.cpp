#include "paceline/linear/machines/admm_master.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "paceline/core/collective/building/balanced_tree.h"

namespace paceline::linear {

AdmmMaster::AdmmMaster(int workers, std::size_t width, const AdmmPace& pace, Consensus consensus)
    : pace_{std::min(pace.barrier, workers), pace.delay},
      consensus_(std::move(consensus)),
      contributions_(static_cast<std::size_t>(workers), std::vector<double>(width)),
      has_arrived_(contributions_.size()),
      ages_(contributions_.size()),
      common_(width) {}

void AdmmMaster::receive(int worker, std::vector<double> contribution) {
  const auto i = static_cast<std::size_t>(worker);
  contributions_[i] = std::move(contribution);
  has_arrived_[i] = true;
}

bool AdmmMaster::can_update() const {
  return awaited().empty();
}

// Those who would miss an update too many come first: the barrier may have enough without others.
std::vector<int> AdmmMaster::awaited() const {
  std::vector<int> late, missing;
  for (std::size_t i = 0; i < ages_.size(); ++i) {
    if (has_arrived_[i]) continue;
    missing.push_back(static_cast<int>(i));
    if (ages_[i] >= pace_.delay - 1) late.push_back(static_cast<int>(i));
  }
  const bool are_enough = std::ranges::count(has_arrived_, true) >= pace_.barrier;
  return are_enough || !late.empty() ? late : missing;
}

std::vector<int> AdmmMaster::update() {
  common_ = collective::balanced_sum(
      contributions_, [](std::vector<double>& left, const std::vector<double>& right) {
        std::ranges::transform(left, right, left.begin(), std::plus());
        return std::move(left);
      });
  consensus_(common_);
  ++updates_;
  std::vector<int> arrived;
  for (std::size_t i = 0; i < ages_.size(); ++i) {
    ages_[i] = has_arrived_[i] ? 0 : ages_[i] + 1;
    if (has_arrived_[i]) arrived.push_back(static_cast<int>(i));
    has_arrived_[i] = false;
  }
  return arrived;
}

}  // namespace paceline::linear
