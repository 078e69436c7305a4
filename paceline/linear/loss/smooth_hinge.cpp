// The hinge with its kink rounded off: a parabola of width gamma lies between its two straight
// parts.
#include <algorithm>

#include "paceline/linear/loss/loss.h"

namespace paceline::linear::catalogue {

Loss smooth_hinge() {
  return {.name = "smooth_hinge",
          .summary = "the hinge, with a parabola in place of its kink",
          .settings = {{.name = "gamma",
                        .standard = 1,
                        .least = 1e-6,
                        .most = 1e6,
                        .meaning = "width of the parabola, in units of the margin"}},
          .labels = Labels::signs,
          .value =
              [](double gamma, double z, double y) {
                const double lack = 1 - y * z;
                if (lack <= 0) return 0.0;
                return lack >= gamma ? lack - gamma / 2 : lack * lack / (2 * gamma);
              },
          .derivative = [](double gamma, double z,
                           double y) { return -y * std::clamp((1 - y * z) / gamma, 0.0, 1.0); },
          .dual_value = [](double gamma, double a,
                           double y) { return y * a - gamma / 2 * (y * a) * (y * a); },
          .dual_maximum =
              [](double gamma, const DualCoordinate& at) {
                const double y = at.label, own = y * at.dual;
                const double ahead =
                    (1 - y * at.prediction - gamma * own) / (at.curvature + gamma) + own;
                return y * std::clamp(ahead, 0.0, 1.0);
              },
          .start = [](double) { return 0.0; },
          .smoothness = [](double gamma) { return 1 / gamma; }};
}

}  // namespace paceline::linear::catalogue
