// Consensus ADMM: each rank fits its own samples near the common weights, and the ranks pull these.
// Boyd, Parikh, Chu, Peleato, Eckstein, Distributed Optimization and Statistical Learning via the
// Alternating Direction Method of Multipliers, 2011, sections 3.4 and 7.1.
#include "paceline/linear/solver/admm_rounds.h"
#include "paceline/linear/solver/solver_catalogue.h"

namespace paceline::linear::catalogue {

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
        return std::make_unique<AdmmRounds>(
            AdmmOptions{.penalty = penalty_in(chosen, context.problem),
                        .relaxation = chosen["relaxation"],
                        .adapts = chosen.on("adaptive"),
                        .local_solve = local_solve_in(chosen)},
            context);
      }};
}

}  // namespace paceline::linear::catalogue
