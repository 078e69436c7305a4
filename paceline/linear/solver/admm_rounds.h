// AdmmRounds: consensus ADMM, with the vectors of a rank by which its proofs and traces go.
//
//   x = argmin f(x) + penalty/2 |x - z + u|^2
//   z = consensus of all ranks' x + u
//   u = u + x - z
//
// where f is the rank's samples' share of the mean loss (solver/consensus.h). Without a regulariser
// the multipliers u of all ranks add up to 0 after each round. With exact solutions and no
// relaxation, penalty (ranks |z - w|^2 + sum over ranks of |u + grad f(w) / penalty|^2) never
// grows, at the optimum w of all. Boyd, Parikh, Chu, Peleato, Eckstein, Distributed Optimization
// and Statistical Learning via the Alternating Direction Method of Multipliers, 2011,
// sections 3.3, 3.4 and 7.1, appendix A.
#pragma once

#include <span>
#include <vector>

#include "paceline/linear/solver/consensus.h"
#include "paceline/linear/solver/vector_exchange.h"

namespace paceline::linear {

struct AdmmOptions {
  double penalty = 0.01;
  // x is replaced by relaxation x + (1 - relaxation) z, with the z before.
  double relaxation = 1;
  bool adapts = false;  // whether the penalty follows the residuals, for 8 bytes a round
  LocalSolveOptions local_solve = {};
};

class AdmmRounds final : public Solver {
 public:
  AdmmRounds(const AdmmOptions& options, const SolverContext& context);

  void round() override;
  std::vector<double> weights() override { return common_; }
  std::span<const double> dual_variables() const override { return local_.dual_variables(); }
  std::uint64_t bytes_brought() const override { return exchange_.bytes_brought(); }
  std::string remark() const override { return {}; }

  // This rank's x (relaxed) and u after the last round; zeros before the first. Valid until the
  // next round.
  std::span<const double> local() const { return x_; }
  std::span<const double> multipliers() const { return multipliers_; }
  double penalty() const { return penalty_; }

 private:
  void balance_residuals(std::span<const double> before);

  const Problem& problem_;
  const double relaxation_;
  const bool adapts_;
  double penalty_;
  const Samples own_;
  LocalProblem local_;
  VectorExchange exchange_;
  std::vector<double> x_, multipliers_, common_;  // x, u, z
};

}  // namespace paceline::linear
