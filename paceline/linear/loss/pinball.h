// Losses that are made of two straight lines which meet where the prediction is the label: they are
// max over a in [low, high] of a (y - z), so the dual variable is bounded by the two slopes.
#pragma once

#include "paceline/linear/loss/loss.h"

namespace paceline::linear {

struct Slopes {
  double low = -1, high = 1;
};

double pinball_value(Slopes slopes, double prediction, double label);
double pinball_derivative(Slopes slopes, double prediction, double label);
double pinball_dual_maximum(Slopes slopes, const DualCoordinate& at);

}  // namespace paceline::linear
