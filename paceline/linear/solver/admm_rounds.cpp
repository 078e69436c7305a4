#include "paceline/linear/solver/admm_rounds.h"

#include <cmath>

#include "paceline/core/base/seed.h"

namespace paceline::linear {
namespace {

struct Balance {
  double beyond = 10, factor = 2;  // a residual this many times the other one changes the penalty
};

}  // namespace

AdmmRounds::AdmmRounds(const AdmmOptions& options, const SolverContext& context)
    : problem_(context.problem),
      relaxation_(options.relaxation),
      adapts_(options.adapts),
      penalty_(options.penalty),
      own_(select(context.samples, context.own_samples())),
      local_(problem_, own_, context.samples.size(), penalty_,
             seed_of(context.seed, context.group.rank(), 0), options.local_solve),
      exchange_(context.group),
      x_(context.samples.rows.width),
      multipliers_(x_.size()),
      common_(x_.size()) {}

void AdmmRounds::round() {
  const std::size_t width = common_.size();
  std::vector<double> centre(width);
  for (std::size_t j = 0; j < width; ++j) centre[j] = common_[j] - multipliers_[j];
  x_ = local_.solve(centre);
  const std::vector<double> before = common_;
  // Over-relaxation takes the place of x by a mixture with the common weights before.
  for (std::size_t j = 0; j < width; ++j) {
    x_[j] = relaxation_ * x_[j] + (1 - relaxation_) * before[j];
    common_[j] = x_[j] + multipliers_[j];
  }
  exchange_.sum(common_);
  consensus_of(problem_, exchange_.ranks(), penalty_, common_);
  for (std::size_t j = 0; j < width; ++j) multipliers_[j] += x_[j] - common_[j];
  if (adapts_) balance_residuals(before);
}

// Doubles the penalty where the ranks are far from the common weights, and halves it where those
// still move far.
void AdmmRounds::balance_residuals(std::span<const double> before) {
  double apart = 0, moved = 0;
  for (std::size_t j = 0; j < x_.size(); ++j) {
    apart += (x_[j] - common_[j]) * (x_[j] - common_[j]);
    moved += (common_[j] - before[j]) * (common_[j] - before[j]);
  }
  exchange_.sum(std::span(&apart, 1));
  const double primal = std::sqrt(apart), dual = penalty_ * std::sqrt(exchange_.ranks() * moved);
  constexpr Balance kBalance;
  double factor = 1;
  if (primal > kBalance.beyond * dual) factor = kBalance.factor;
  if (dual > kBalance.beyond * primal) factor = 1 / kBalance.factor;
  if (factor == 1) return;
  penalty_ *= factor;
  for (double& one : multipliers_) one /= factor;
  local_.set_penalty(penalty_);
}

}  // namespace paceline::linear
