// CoCoA: ranks average what a pass of SDCA over their samples made of the weights.
// Jaggi, Smith, Takac, Terhorst, Krishnan, Hofmann, Jordan, Communication-Efficient Distributed
// Dual Coordinate Ascent, NeurIPS 2014.
#include "paceline/linear/solver/cocoa_rounds.h"
#include "paceline/linear/solver/solver_catalogue.h"

namespace paceline::linear::catalogue {

SolverMethod cocoa() {
  return {.name = "cocoa",
          .summary = "each rank makes a pass of SDCA over its samples; their moves are averaged",
          .reference = "Jaggi, Smith, Takac and others, NeurIPS 2014",
          .settings = cocoa_settings(),
          .needs_l2 = true,
          .make = [](const Settings& settings, const SolverContext& context) {
            return cocoa_rounds({.share = 1.0 / context.group.size(), .stretch = 1}, settings,
                                context);
          }};
}

}  // namespace paceline::linear::catalogue
