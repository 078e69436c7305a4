// The median of each coordinate by itself.
// Yin et al., Byzantine-Robust Distributed Learning, ICML 2018.
#include <torch/torch.h>

#include "paceline/torch/strategy/rules/robust_rule.h"
#include "paceline/torch/strategy/rules/sorted_columns.h"

namespace paceline::strategy::rules {

at::Tensor median(const GradientRows& rows, const RuleSettings&) {
  return rows.vector_of(take_medians);
}

}  // namespace paceline::strategy::rules
