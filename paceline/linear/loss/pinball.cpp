#include "paceline/linear/loss/pinball.h"

#include <algorithm>

namespace paceline::linear {

double pinball_value(Slopes slopes, double prediction, double label) {
  const double residual = label - prediction;
  return std::max(slopes.low * residual, slopes.high * residual);
}

double pinball_derivative(Slopes slopes, double prediction, double label) {
  if (prediction == label) return 0;
  return label > prediction ? -slopes.high : -slopes.low;
}

double pinball_dual_maximum(Slopes slopes, const DualCoordinate& at) {
  if (at.curvature == 0) {  // a row without entries: the prediction stays 0
    if (at.label == 0) return 0;
    return at.label > 0 ? slopes.high : slopes.low;
  }
  return std::clamp(at.dual + (at.label - at.prediction) / at.curvature, slopes.low, slopes.high);
}

}  // namespace paceline::linear
