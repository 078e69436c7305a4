// The logistic loss log(1 + exp(-yz)): its weights give probabilities.
#include <algorithm>
#include <cmath>

#include "paceline/linear/loss/loss.h"

namespace paceline::linear::catalogue {
namespace {

double sigmoid(double t) {
  return t >= 0 ? 1 / (1 + std::exp(-t)) : std::exp(t) / (1 + std::exp(t));
}

double entropy_term(double v) {
  return v > 0 ? -v * std::log(v) : 0.0;
}

// The b in (0, 1) that maximises the dual along a coordinate, from b0. Its logit t solves
// -t - m - q (sigmoid(t) - b0) = 0, which falls strictly: Newton's steps are kept inside a bracket
// that holds the root, because from b near 0 or 1 plain Newton does not get anywhere.
double dual_maximum_of_logit(double b0, double m, double q) {
  constexpr double kEdge = 1e-12, kTolerance = 1e-11;
  constexpr int kMostSteps = 60;
  double low = -m - q * (1 - b0), high = -m + q * b0;
  const double inside = std::clamp(b0, kEdge, 1 - kEdge);
  double t = std::clamp(std::log(inside / (1 - inside)), low, high);
  for (int i = 0; i < kMostSteps; ++i) {
    const double b = sigmoid(t), rest = -t - m - q * (b - b0);
    const double step = rest / (1 + q * b * (1 - b));
    if (std::abs(step) <= kTolerance * (1 + std::abs(t))) return sigmoid(t + step);
    (rest > 0 ? low : high) = t;
    const double next = t + step;
    t = next > low && next < high ? next : (low + high) / 2;
  }
  return sigmoid(t);
}

}  // namespace

Loss logistic() {
  return {.name = "logistic",
          .summary = "minus the log of the probability that the model gives to the label",
          .labels = Labels::signs,
          .value =
              [](double, double z, double y) {
                const double m = y * z;
                return std::max(0.0, -m) + std::log1p(std::exp(-std::abs(m)));
              },
          .derivative = [](double, double z, double y) { return -y * sigmoid(-y * z); },
          .dual_value = [](double, double a,
                           double y) { return entropy_term(y * a) + entropy_term(1 - y * a); },
          .dual_maximum =
              [](double, const DualCoordinate& at) {
                const double y = at.label;
                return y * dual_maximum_of_logit(y * at.dual, y * at.prediction, at.curvature);
              },
          .start = [](double y) { return y / 2; },
          .smoothness = [](double) { return 0.25; }};
}

}  // namespace paceline::linear::catalogue
