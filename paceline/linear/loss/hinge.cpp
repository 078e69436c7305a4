// The hinge max(0, 1 - yz) of support vector machines. It is not smooth.
#include <algorithm>

#include "paceline/linear/loss/loss.h"

namespace paceline::linear::catalogue {

Loss hinge() {
  return {.name = "hinge",
          .summary = "what the margin yz lacks to 1",
          .labels = Labels::signs,
          .value = [](double, double z, double y) { return std::max(0.0, 1 - y * z); },
          .derivative = [](double, double z, double y) { return y * z < 1 ? -y : 0.0; },
          .dual_value = [](double, double a, double y) { return y * a; },
          .dual_maximum =
              [](double, const DualCoordinate& at) {
                const double y = at.label;
                if (at.curvature == 0) return y;  // a row without entries: the loss is 1 for ever
                const double ahead = (1 - y * at.prediction) / at.curvature + y * at.dual;
                return y * std::clamp(ahead, 0.0, 1.0);
              },
          .start = [](double) { return 0.0; },
          .smoothness = [](double) { return kNotSmooth; }};
}

}  // namespace paceline::linear::catalogue
