#include "paceline/torch/strategy/rules/krum_scores.h"

#include <algorithm>
#include <numeric>

namespace paceline::strategy::rules {

std::size_t krum_neighbours(const GradientRows& rows) {
  const auto all = static_cast<std::ptrdiff_t>(rows.count());
  return static_cast<std::size_t>(std::max<std::ptrdiff_t>(1, all - rows.faulty() - 2));
}

std::vector<double> krum_scores(const GradientRows& rows) {
  const std::size_t n = rows.count();
  const std::vector<double> squares = rows.pair_square_distances();
  std::vector<double> scores, others;
  for (std::size_t i = 0; i < n; ++i) {
    others.clear();
    for (std::size_t j = 0; j < n; ++j)
      if (j != i) others.push_back(squares[i * n + j]);
    std::ranges::sort(others);
    const std::size_t nearest = std::min(krum_neighbours(rows), others.size());
    scores.push_back(std::accumulate(others.begin(),
                                     others.begin() + static_cast<std::ptrdiff_t>(nearest), 0.0));
  }
  return scores;
}

}  // namespace paceline::strategy::rules
