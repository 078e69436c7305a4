// SDCA: stochastic dual coordinate ascent in one process.
// Shalev-Shwartz, Zhang, Stochastic Dual Coordinate Ascent Methods for Regularized Loss
// Minimization, JMLR 2013.
#include "paceline/linear/solver/dual_block.h"
#include "paceline/linear/solver/sample_order.h"
#include "paceline/linear/solver/solver_catalogue.h"

namespace paceline::linear::catalogue {
namespace {

// A round is an epoch. Its order is that of rank 0 of CoCoA, which on one rank is the same method.
class Sdca final : public Solver {
 public:
  Sdca(const Settings& settings, const SolverContext& context)
      : order_(order_in(settings, context.seed, 0)),
        samples_(context.samples),
        block_(samples_, context.problem.loss,
               context.problem.l2 * static_cast<double>(samples_.size())),
        weights_(samples_.rows.width) {
    block_.add_to(weights_);
  }

  void round() override { block_.pass(order_.of_pass(samples_.size(), epochs_++), weights_); }
  std::vector<double> weights() override { return weights_; }
  std::span<const double> dual_variables() const override { return block_.variables; }
  std::uint64_t bytes_brought() const override { return 0; }
  std::string remark() const override { return {}; }

 private:
  const SampleOrder order_;
  const Samples& samples_;
  DualBlock block_;
  std::vector<double> weights_;
  std::int64_t epochs_ = 0;
};

}  // namespace

SolverMethod sdca() {
  return {.name = "sdca",
          .summary = "dual coordinate ascent, a pass over all samples a round, in one process",
          .reference = "Shalev-Shwartz, Zhang, JMLR 2013",
          .settings = {order_setting()},
          .parts = SolverMethod::Parts::one,
          .needs_l2 = true,
          .make = [](const Settings& settings, const SolverContext& context)
              -> std::unique_ptr<Solver> { return std::make_unique<Sdca>(settings, context); }};
}

}  // namespace paceline::linear::catalogue
