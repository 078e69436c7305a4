#include "paceline/torch/strategy/local/weight_ledger.h"

#include <algorithm>
#include <exception>
#include <numeric>

namespace paceline::strategy {

WeightLedger::~WeightLedger() {
  try {
    settle();
  } catch (const std::exception&) {  // what ended the communication was told, or will be
  }
}

void WeightLedger::tell(const replica::RankWeight& own) {
  if (own.said) {
    while (!told_.empty() && told_.front().knows_weights()) settle_one();
    told_.emplace_back(group_, training_).tell_weight(own);
    return;
  }
  for (double& samples : samples_) samples += own.weight;
  last_had_batch_ = own.weight > 0;
}

void WeightLedger::settle_one() {
  const gradient::StepWeights& step = told_.front().weights();
  for (std::size_t rank = 0; rank < samples_.size(); ++rank) samples_[rank] += step.of_ranks[rank];
  last_had_batch_ = step.total > 0;
  told_.pop_front();
}

void WeightLedger::settle() {
  while (!told_.empty()) settle_one();
}

bool WeightLedger::any_batch() {
  settle();
  return last_had_batch_;
}

const std::vector<double>& WeightLedger::samples() {
  settle();
  return samples_;
}

double WeightLedger::share() {
  const std::vector<double>& of_ranks = samples();
  const double total = std::accumulate(of_ranks.begin(), of_ranks.end(), 0.0);
  if (total == 0) return 1;
  return of_ranks[static_cast<std::size_t>(group_.rank())] * static_cast<double>(of_ranks.size()) /
         total;
}

bool WeightLedger::is_empty() {
  return std::ranges::all_of(samples(), [](double weight) { return weight == 0; });
}

void WeightLedger::restart() {
  settle();
  std::ranges::fill(samples_, 0);
}

}  // namespace paceline::strategy
