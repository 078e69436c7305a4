// Multi-Krum: the mean of the rows that are nearest to their neighbours.
// Blanchard et al., Machine Learning with Adversaries, NeurIPS 2017, section 5.
#include <torch/torch.h>

#include <algorithm>
#include <numeric>

#include "paceline/torch/strategy/rules/krum_scores.h"
#include "paceline/torch/strategy/rules/robust_rule.h"

namespace paceline::strategy::rules {

at::Tensor multi_krum(const GradientRows& rows, const RuleSettings&) {
  const std::vector<double> scores = krum_scores(rows);
  std::vector<std::size_t> order(rows.count());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return scores[i]; });
  const std::size_t taken = std::min(krum_neighbours(rows), rows.count());
  std::vector<double> weights(rows.count(), 0.0);
  for (std::size_t i = 0; i < taken; ++i) weights[order[i]] = 1 / static_cast<double>(taken);
  return rows.weighted_sum(weights);
}

}  // namespace paceline::strategy::rules
