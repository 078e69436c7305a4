#include "click_scores.h"

#include <algorithm>
#include <cmath>

namespace examples {

// Each clicked line counts the others below it, and half of those beside it.
double area_under_curve(std::vector<ScoredLine> lines) {
  std::ranges::sort(lines, {}, &ScoredLine::logit);
  double clicked = 0, others = 0, won = 0;
  for (auto first = lines.begin(); first != lines.end();) {
    const auto end = std::find_if(first, lines.end(),
                                  [&](const ScoredLine& one) { return one.logit != first->logit; });
    const auto clicked_here =
        static_cast<double>(std::count_if(first, end, [](const auto& one) { return one.clicked; }));
    const double others_here = static_cast<double>(end - first) - clicked_here;
    won += clicked_here * (others + others_here / 2);
    clicked += clicked_here;
    others += others_here;
    first = end;
  }
  return won / (clicked * others);
}

// log(1 + exp(x)) is max(x, 0) + log(1 + exp(-|x|)), which never overflows.
double log_loss(std::span<const ScoredLine> lines) {
  double sum = 0;
  for (const ScoredLine& line : lines) {
    const double wrong = line.clicked ? -line.logit : line.logit;
    sum += std::max(wrong, 0.0) + std::log1p(std::exp(-std::abs(wrong)));
  }
  return sum / static_cast<double>(lines.size());
}

}  // namespace examples
