// Krum: the row that is nearest to its neighbours.
// Blanchard et al., Machine Learning with Adversaries, NeurIPS 2017.
#include <torch/torch.h>

#include <algorithm>

#include "paceline/torch/strategy/rules/krum_scores.h"
#include "paceline/torch/strategy/rules/robust_rule.h"

namespace paceline::strategy::rules {

at::Tensor krum(const GradientRows& rows, const RuleSettings&) {
  const std::vector<double> scores = krum_scores(rows);
  return rows.row(static_cast<std::size_t>(std::ranges::min_element(scores) - scores.begin()));
}

}  // namespace paceline::strategy::rules
