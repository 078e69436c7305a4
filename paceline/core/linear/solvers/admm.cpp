// Consensus ADMM: each rank fits its own samples near the common weights, and the ranks pull these.
// Boyd, Parikh, Chu, Peleato, Eckstein, Distributed Optimization and Statistical Learning via the
// Alternating Direction Method of Multipliers, 2011, sections 3.4 and 7.1.
#include <cmath>

#include "paceline/core/linear/solver/consensus.h"
#include "paceline/core/linear/solver/solver_catalogue.h"
#include "paceline/core/linear/solver/vector_exchange.h"

namespace paceline::linear::catalogue {
namespace {

struct Balance {
  double beyond = 10, factor = 2;  // a residual this many times the other one changes the penalty
};

class Admm final : public Solver {
 public:
  Admm(const Settings& settings, const SolverContext& context)
      : problem_(context.problem),
        relaxation_(settings["relaxation"]),
        adapts_(settings.on("adaptive")),
        penalty_(penalty_in(settings, problem_)),
        own_(select(context.samples, context.own_samples())),
        local_(problem_, own_, context.samples.size(), penalty_,
               seed_of(context.seed, context.group.rank(), 0), local_solve_in(settings)),
        exchange_(context.group),
        multipliers_(context.samples.rows.width),
        common_(context.samples.rows.width) {}

  void round() override {
    const std::size_t width = common_.size();
    std::vector<double> centre(width);
    for (std::size_t j = 0; j < width; ++j) centre[j] = common_[j] - multipliers_[j];
    std::vector<double> x = local_.solve(centre);
    const std::vector<double> before = common_;
    // Over-relaxation takes the place of x by a mixture with the common weights before.
    for (std::size_t j = 0; j < width; ++j) {
      x[j] = relaxation_ * x[j] + (1 - relaxation_) * before[j];
      common_[j] = x[j] + multipliers_[j];
    }
    exchange_.sum(common_);
    consensus_of(problem_, exchange_.ranks(), penalty_, common_);
    for (std::size_t j = 0; j < width; ++j) multipliers_[j] += x[j] - common_[j];
    if (adapts_) balance_residuals(x, before);
  }

  std::vector<double> weights() override { return common_; }
  std::span<const double> dual_variables() const override { return local_.dual_variables(); }
  std::uint64_t bytes_brought() const override { return exchange_.bytes_brought(); }
  std::string remark() const override { return {}; }

 private:
  // Doubles the penalty where the ranks are far from the common weights, and halves it where those
  // still move far.
  void balance_residuals(std::span<const double> x, std::span<const double> before) {
    double apart = 0, moved = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      apart += (x[j] - common_[j]) * (x[j] - common_[j]);
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

  const Problem& problem_;
  const double relaxation_;
  const bool adapts_;
  double penalty_;
  const Samples own_;
  LocalProblem local_;
  VectorExchange exchange_;
  std::vector<double> multipliers_;  // this rank's u
  std::vector<double> common_;       // z
};

}  // namespace

SolverMethod admm() {
  std::vector<Setting> settings = consensus_settings();
  settings.push_back({.name = "relaxation",
                      .standard = 1,
                      .least = 0.1,
                      .most = 1.9,
                      .meaning = "above 1, ranks are followed beyond where they are"});
  settings.push_back({.name = "adaptive",
                      .standard = 0,
                      .least = 0,
                      .most = 1,
                      .meaning = "whether the penalty follows the residuals",
                      .whole = true,
                      .words = {"off", "on"}});
  return {
      .name = "admm",
      .summary = "each rank fits its samples near common weights, which the ranks agree on",
      .reference = "Boyd, Parikh, Chu, Peleato, Eckstein 2011",
      .settings = std::move(settings),
      .takes_l1 = true,
      .make = [](const Settings& chosen, const SolverContext& context) -> std::unique_ptr<Solver> {
        return std::make_unique<Admm>(chosen, context);
      }};
}

}  // namespace paceline::linear::catalogue
