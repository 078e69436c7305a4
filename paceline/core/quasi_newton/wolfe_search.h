// A line search for the strong Wolfe conditions: bracketing, and a zoom by cubic interpolation
// (Nocedal and Wright, "Numerical Optimization", 2nd edition, algorithms 3.5 and 3.6).
#pragma once

#include <functional>
#include <optional>

namespace paceline::quasi_newton {

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

// The search as a machine. It looks for a step t > 0 with
//     value(t) <= value(0) + c1 t slope(0)   and   |slope(t)| <= c2 |slope(0)|
// and asks for an evaluation at one step after the other. A value that is not finite counts as too
// large. THREAD: one.
class WolfeSearch {
 public:
  // `start`: the point at 0, where the slope has to be negative, or nothing is found. `first`: the
  // step that is tried first.
  WolfeSearch(const LinePoint& start, double first, const WolfeOptions& options = {});

  std::optional<double> step() const { return step_; }  // to evaluate next; none: it is over
  void take(const LinePoint& point);                    // which was evaluated there
  const LinePoint& start() const { return start_; }
  const WolfeResult& result() const { return result_; }

 private:
  bool is_too_high(const LinePoint& point) const;
  bool is_flat(const LinePoint& point) const;
  void found();
  void bracket(const LinePoint& now);
  void zoom(LinePoint low, LinePoint high);
  void narrow(const LinePoint& now);

  LinePoint start_;
  WolfeOptions options_;
  WolfeResult result_;
  std::optional<double> step_;
  LinePoint before_;  // the last one, while the step grows
  // Zooming: `low_` has the least value of those with sufficient decrease; a step between the two
  // satisfies both conditions.
  bool zooms_ = false;
  LinePoint low_, high_;
};

// The same, where `evaluate` gives the points at once.
WolfeResult wolfe_search(const std::function<LinePoint(double step)>& evaluate,
                         const LinePoint& start, double first, const WolfeOptions& options = {});

}  // namespace paceline::quasi_newton
