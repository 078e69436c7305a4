// CoCoA+: ranks add what a pass of SDCA over their samples made of the weights, and step as
// carefully as that needs.
// Ma, Smith, Jaggi, Jordan, Richtarik, Takac, Adding vs. Averaging in Distributed Primal-Dual
// Optimization, ICML 2015.
#include "paceline/linear/solver/cocoa_rounds.h"
#include "paceline/linear/solver/solver_catalogue.h"

namespace paceline::linear::catalogue {

SolverMethod cocoa_plus() {
  return {.name = "cocoa_plus",
          .summary =
              "each rank makes a pass of careful SDCA over its samples; their moves are "
              "added",
          .reference = "Ma, Smith, Jaggi, Jordan, Richtarik, Takac, ICML 2015",
          .settings = cocoa_settings(),
          .needs_l2 = true,
          .make = [](const Settings& settings, const SolverContext& context) {
            return cocoa_rounds({.share = 1, .stretch = static_cast<double>(context.group.size())},
                                settings, context);
          }};
}

}  // namespace paceline::linear::catalogue
