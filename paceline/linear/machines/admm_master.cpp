#include "paceline/linear/machines/admm_master.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "paceline/core/collective/building/balanced_tree.h"

namespace paceline::linear {

AdmmMaster::AdmmMaster(int workers, std::size_t width, const AdmmPace& pace, Consensus consensus)
    : consensus_(std::move(consensus)),
      contributions_(static_cast<std::size_t>(workers), std::vector<double>(width)),
      barrier_(pace),
      common_(width) {
  for (int worker = 0; worker < workers; ++worker) barrier_.join(worker);
}

void AdmmMaster::receive(int worker, std::vector<double> contribution) {
  contributions_[static_cast<std::size_t>(worker)] = std::move(contribution);
  barrier_.arrive(worker);
}

std::vector<int> AdmmMaster::update() {
  common_ = collective::balanced_sum(
      contributions_, [](std::vector<double>& left, const std::vector<double>& right) {
        std::ranges::transform(left, right, left.begin(), std::plus());
        return std::move(left);
      });
  consensus_(common_);
  ++updates_;
  return barrier_.pass();
}

std::vector<int> AdmmMaster::ages() const {
  std::vector<int> ages;
  for (int worker = 0; worker < std::ssize(contributions_); ++worker)
    ages.push_back(barrier_.age_of(worker));
  return ages;
}

}  // namespace paceline::linear
