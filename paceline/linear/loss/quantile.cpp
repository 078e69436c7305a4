// The quantile loss (Koenker and Bassett 1978): a residual y - z above 0 costs tau, one below 0
// costs 1 - tau, each times its length. Its weights give the quantile tau. It is not smooth.
#include "paceline/linear/loss/pinball.h"

namespace paceline::linear::catalogue {
namespace {

Slopes slopes_of(double tau) {
  return {tau - 1, tau};
}

}  // namespace

Loss quantile() {
  return {
      .name = "quantile",
      .summary = "the residual, which costs more on one side",
      .settings = {{.name = "tau",
                    .standard = 0.5,
                    .least = 0,
                    .most = 1,
                    .meaning = "quantile that predictions estimate"}},
      .value = [](double tau, double z, double y) { return pinball_value(slopes_of(tau), z, y); },
      .derivative = [](double tau, double z,
                       double y) { return pinball_derivative(slopes_of(tau), z, y); },
      .dual_value = [](double, double a, double y) { return a * y; },
      .dual_maximum =
          [](double tau, const DualCoordinate& at) {
            return pinball_dual_maximum(slopes_of(tau), at);
          },
      .start = [](double) { return 0.0; },
      .smoothness = [](double) { return kNotSmooth; }};
}

}  // namespace paceline::linear::catalogue
