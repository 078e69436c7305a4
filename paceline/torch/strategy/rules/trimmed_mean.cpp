// The mean of each coordinate without its smallest and largest values, as many as may be faulty.
// Yin et al., Byzantine-Robust Distributed Learning, ICML 2018.
#include <torch/torch.h>

#include <algorithm>

#include "paceline/torch/strategy/rules/robust_rule.h"
#include "paceline/torch/strategy/rules/sorted_columns.h"

namespace paceline::strategy::rules {

at::Tensor trimmed_mean(const GradientRows& rows, const RuleSettings&) {
  const std::size_t n = rows.count(),
                    cut = std::min(static_cast<std::size_t>(rows.faulty()), (n - 1) / 2);
  std::vector<double> weights(n, 0.0);
  std::fill(weights.begin() + static_cast<std::ptrdiff_t>(cut),
            weights.end() - static_cast<std::ptrdiff_t>(cut), 1 / static_cast<double>(n - 2 * cut));
  return rows.vector_of([&](const RowBlock& block, std::span<double> into) {
    sort_columns(block);
    std::ranges::fill(into, 0.0);
    add_weighted(block, weights, into);
  });
}

}  // namespace paceline::strategy::rules
