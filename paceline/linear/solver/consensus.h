// Consensus ADMM's work on a rank, and with the ranks' vectors; the synchronous and the
// asynchronous solver share it.
// Boyd, Parikh, Chu, Peleato, Eckstein, Distributed Optimization and Statistical Learning via the
// Alternating Direction Method of Multipliers, 2011, chapter 7 (scaled form).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "paceline/linear/solver/dual_block.h"
#include "paceline/linear/solver/solver.h"

namespace paceline::linear {

struct LocalSolveOptions {
  int most_passes = 10;  // of SDCA over the samples, each time
  double accuracy = 0;   // ends earlier when the local duality gap is at most this
};

// One rank's problem: x = argmin f(x) + penalty/2 |x - centre|^2, where f is its samples' share of
// the mean loss, (1/n) sum over them. SDCA solves it, from the dual variables of the last time on.
class LocalProblem {
 public:
  // `own` outlives this, as the problem does. `total`: n. `seed`: of the orders of samples, this
  // rank's own.
  LocalProblem(const Problem& problem, const Samples& own, std::size_t total, double penalty,
               std::uint64_t seed, const LocalSolveOptions& options);

  std::vector<double> solve(std::span<const double> centre);
  void set_penalty(double penalty);
  std::span<const double> dual_variables() const { return block_->variables; }

 private:
  double gap(std::span<const double> centre, std::span<const double> x) const;

  const Problem& problem_;
  const Samples& own_;
  const double total_;
  double penalty_;
  const std::uint64_t seed_;
  const LocalSolveOptions options_;
  std::unique_ptr<DualBlock> block_;
  std::int64_t passes_done_ = 0;
};

// The common weights z that follow from the sum over all ranks of x + u: it replaces `sum` by
// argmin R(z) + ranks * penalty/2 |z - sum/ranks|^2.
void consensus_of(const Problem& problem, int ranks, double penalty, std::span<double> sum);

// The penalty where the user sets none: three times l2, which suits both dense ridge regression
// and sparse words; 0.01 without l2.
double usual_penalty(const Problem& problem);

// The settings that both solvers have: penalty, passes, accuracy.
std::vector<Setting> consensus_settings();
double penalty_in(const Settings& settings, const Problem& problem);
LocalSolveOptions local_solve_in(const Settings& settings);

}  // namespace paceline::linear
