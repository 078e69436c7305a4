#include "paceline/linear/threads/sample_steps.h"

#include "paceline/linear/threads/sparsity.h"

namespace paceline::linear {

SampleSteps::SampleSteps(const Problem& problem, const Samples& samples)
    : loss_(problem.loss), samples_(samples) {
  const auto n = static_cast<double>(samples.size());
  for (const std::size_t count : samples_with_feature(samples.rows))
    regularisers_.push_back(count == 0 ? 0 : problem.l2 * n / static_cast<double>(count));
}

}  // namespace paceline::linear
