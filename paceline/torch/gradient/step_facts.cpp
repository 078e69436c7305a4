#include "paceline/torch/gradient/step_facts.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "paceline/core/base/base.h"

namespace paceline::parallel {
namespace {

Failure not_said_by_all(const std::vector<bool>& said) {
  const int told = static_cast<int>(std::ranges::find(said, true) - said.begin()),
            silent = static_cast<int>(std::ranges::find(said, false) - said.begin());
  return {Fault::mismatch,
          c10::str("rank ", told, " called DataParallel::weight() and rank ", silent,
                   " did not, so their gradients cannot be weighed against each other: call it on "
                   "all ranks or on none"),
          {told, silent}};
}

}  // namespace

// The buffer is in use until the operation has ended.
StepFacts::~StepFacts() {
  if (!told_weights_.work.done())
    told_weights_.work.keep(std::make_shared<std::vector<double>>(std::move(buffer_)));
}

void StepFacts::tell_weight(const RankWeight& own) {
  own_ = own;
  has_told_weight_ = true;
  const auto rank = static_cast<std::size_t>(group_.rank());
  buffer_.assign(2 * static_cast<std::size_t>(group_.size()), 0.0);
  buffer_[2 * rank] = own.weight;
  buffer_[2 * rank + 1] = own.said ? 1 : 0;
  if (group_.size() > 1)
    told_weights_ = lane_.call([this] { return group_.all_reduce(buffer_of(buffer_)); });
}

const StepWeights& StepFacts::weights() {
  if (weights_) return *weights_;
  lane_.wait(told_weights_, [this] { return "for the weights of a step" + where_(); });
  StepWeights all;
  std::vector<bool> said;
  for (std::size_t rank = 0; 2 * rank < buffer_.size(); ++rank) {
    const double weight = buffer_[2 * rank];
    all.of_ranks.push_back(weight);
    all.total += weight;
    all.shadows += weight == 0;
    if (all.root < 0 && weight > 0) all.root = static_cast<int>(rank);
    said.push_back(buffer_[2 * rank + 1] != 0);
  }
  if (std::ranges::find(said, !own_.said) != said.end()) throw Error(not_said_by_all(said));
  weights_ = std::move(all);
  return *weights_;
}

// The length tells the unit, so that a mismatch does.
WatchedLane::Call StepFacts::tell_reading(std::size_t unit) {
  auto word = std::make_shared<std::vector<std::int8_t>>(unit + 1);
  auto told = lane_.call(
      [&] { return group_.all_reduce(buffer_of(std::span(*word)), {.op = ReduceOp::max}); });
  told.work.keep(std::move(word));
  return told;
}

void StepFacts::wait_for(const WatchedLane::Call& told) {
  lane_.wait(told, [this] { return "to read parameters" + where_(); });
}

std::vector<bool> StepFacts::used_by_any(const std::vector<bool>& used) {
  if (group_.size() == 1) return used;
  std::vector<std::uint8_t> flags(used.begin(), used.end());
  lane_.wait(lane_.call([&] { return group_.all_reduce(buffer_of(flags), {.op = ReduceOp::max}); }),
             [this] { return "at the end of its step" + where_(); });
  return {flags.begin(), flags.end()};
}

void StepFacts::end() {
  has_told_weight_ = false;
  weights_.reset();
  told_weights_ = {};
}

}  // namespace paceline::parallel
