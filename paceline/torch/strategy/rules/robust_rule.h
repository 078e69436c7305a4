// Rules that make one gradient of those of all ranks, of which some may be anything: values in a
// table (docs/strategies/robust.md gives the formulas).
//
// Rules are pure functions: the same rows give the same bits on every rank. Ties go to the lowest
// row. They take whatever number of rows is left; what they promise holds from least_ranks() on.
#pragma once

#include <ATen/core/Tensor.h>

#include <string_view>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/torch/strategy/rules/gradient_rows.h"

namespace paceline::strategy::rules {

// Settings of clipping; the other rules have none.
struct RuleSettings {
  double radius = 1;  // within which a row counts whole
  int rounds = 3;     // of moving the centre
  at::Tensor start;   // its first place: [elements], of the rows' type
};

// Each returns a new vector of the rows' type. REQUIRES: rows.count() > 0.
at::Tensor krum(const GradientRows& rows, const RuleSettings&);
at::Tensor multi_krum(const GradientRows& rows, const RuleSettings&);
at::Tensor median(const GradientRows& rows, const RuleSettings&);
at::Tensor trimmed_mean(const GradientRows& rows, const RuleSettings&);
at::Tensor geometric_median(const GradientRows& rows, const RuleSettings&);
at::Tensor clipping(const GradientRows& rows, const RuleSettings& settings);

struct RobustRule {
  std::string_view name;
  int spare = 1;  // it needs 2 * faulty + spare ranks
  at::Tensor (*apply)(const GradientRows&, const RuleSettings&) = nullptr;
  bool keeps_state = false;  // its result is the start of the next step

  int least_ranks(int faulty) const { return 2 * faulty + spare; }
};

// All of them, in the order in which their names are listed.
const std::vector<RobustRule>& robust_rules();

// Nothing: the rule bears so many faulty ranks. A failure (misuse) names the bound and remedies.
Result<> check(const RobustRule& rule, int ranks, int faulty);

}  // namespace paceline::strategy::rules
