// A line search for the strong Wolfe conditions: bracketing, and a zoom by cubic interpolation
// (Nocedal and Wright, "Numerical Optimization", 2nd edition, algorithms 3.5 and 3.6).
#pragma once

#include <functional>

namespace paceline::optimizers {

// A function of one number, at one place: its value and its derivative.
struct LinePoint {
  double step = 0;
  double value = 0, slope = 0;
};

struct WolfeOptions {
  double sufficient_decrease = 1e-4;  // c1
  double curvature = 0.9;             // c2: suits quasi-Newton directions
  int max_evaluations = 25;
};

struct WolfeResult {
  LinePoint point;     // the last one that was evaluated
  bool found = false;  // it satisfies both conditions
  int evaluations = 0;
};

// Looks for a step t > 0 with
//     value(t) <= value(0) + c1 t slope(0)   and   |slope(t)| <= c2 |slope(0)|
// and tries `first` first. A value that is not finite counts as too large. `start`: the point at 0,
// where the slope has to be negative, or nothing is found.
WolfeResult wolfe_search(const std::function<LinePoint(double step)>& evaluate,
                         const LinePoint& start, double first, const WolfeOptions& options = {});

}  // namespace paceline::optimizers
