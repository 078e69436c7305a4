// Centred clipping: a centre moves by the mean of the rows' distances from it, of which none counts
// for more than the radius.
// Karimireddy, He, Jaggi, Learning from History for Byzantine Robust Optimization, ICML 2021.
#include <torch/torch.h>

#include <cmath>

#include "paceline/torch/strategy/rules/robust_rule.h"

namespace paceline::strategy::rules {

// The centre is always a mixture of the start and the rows, so it is known by its shares in them
// and needs no memory of its own.
at::Tensor clipping(const GradientRows& rows, const RuleSettings& settings) {
  double start_share = 1;
  std::vector<double> shares(rows.count(), 0.0);
  const GradientRows::Centre centre = [&](const RowBlock& block, std::span<double> into) {
    read_columns(settings.start, block.begin, into);
    for (double& value : into) value *= start_share;
    add_weighted(block, shares, into);
  };
  for (int round = 0; round < settings.rounds; ++round) {
    const std::vector<double> squares = rows.square_distances(centre);
    std::vector<double> steps;
    double moved = 0;
    for (const double square : squares) {
      const double distance = std::sqrt(square);
      steps.push_back((distance > settings.radius ? settings.radius / distance : 1) /
                      static_cast<double>(rows.count()));
      moved += steps.back();
    }
    start_share *= 1 - moved;
    for (std::size_t i = 0; i < shares.size(); ++i) shares[i] = shares[i] * (1 - moved) + steps[i];
  }
  return rows.vector_of(centre);
}

}  // namespace paceline::strategy::rules
