#include "paceline/core/linear/threads/sample_steps.h"

#include "paceline/core/linear/threads/sparsity.h"

namespace paceline::linear {

SampleSteps::SampleSteps(const Problem& problem, const Samples& samples)
    : loss_(problem.loss), samples_(samples), shrinkages_(samples.rows.width) {
  const auto n = static_cast<double>(samples.size());
  for (const std::size_t count : samples_with_feature(samples.rows))
    regularisers_.push_back(count == 0 ? 0 : problem.l2 * n / static_cast<double>(count));
}

void SampleSteps::set_rate(double rate) {
  rate_ = rate;
  for (std::size_t j = 0; j < shrinkages_.size(); ++j) {
    const double strength = rate * regularisers_[j];
    shrinkages_[j] = {1 / (1 + strength), strength / (1 + strength)};
  }
}

}  // namespace paceline::linear
