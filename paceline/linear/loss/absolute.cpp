// The absolute residual |z - y|: its weights give medians. It is not smooth.
#include "paceline/linear/loss/pinball.h"

namespace paceline::linear::catalogue {

Loss absolute() {
  return {
      .name = "absolute",
      .summary = "the absolute residual",
      .value = [](double, double z, double y) { return pinball_value({}, z, y); },
      .derivative = [](double, double z, double y) { return pinball_derivative({}, z, y); },
      .dual_value = [](double, double a, double y) { return a * y; },
      .dual_maximum = [](double, const DualCoordinate& at) { return pinball_dual_maximum({}, at); },
      .start = [](double) { return 0.0; },
      .smoothness = [](double) { return kNotSmooth; }};
}

}  // namespace paceline::linear::catalogue
