// Half the squared residual, (z - y)^2 / 2: with l2 it is ridge regression, with l1 the lasso.
#include "paceline/linear/loss/loss.h"

namespace paceline::linear::catalogue {

Loss squared() {
  return {.name = "squared",
          .summary = "half the squared residual",
          .value = [](double, double z, double y) { return (z - y) * (z - y) / 2; },
          .derivative = [](double, double z, double y) { return z - y; },
          .dual_value = [](double, double a, double y) { return a * y - a * a / 2; },
          .dual_maximum =
              [](double, const DualCoordinate& at) {
                return at.dual + (at.label - at.prediction - at.dual) / (1 + at.curvature);
              },
          .start = [](double) { return 0.0; },
          .smoothness = [](double) { return 1.0; }};
}

}  // namespace paceline::linear::catalogue
