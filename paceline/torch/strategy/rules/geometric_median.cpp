// The point whose distances to all rows have the least sum, by Weiszfeld's iteration from the
// coordinates' median; a distance counts no less than kLeastDistance.
// Pillutla, Kakade, Harchaoui, Robust Aggregation for Federated Learning, 2019 (RFA).
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "paceline/torch/strategy/rules/robust_rule.h"
#include "paceline/torch/strategy/rules/sorted_columns.h"

namespace paceline::strategy::rules {
namespace {

constexpr double kLeastDistance = 1e-6;
constexpr int kWeiszfeldIterations = 50;

// Shares of the rows in the next point: inverse distances, which add up to 1. Empty: all are
// infinitely far.
std::vector<double> weiszfeld_shares(const std::vector<double>& square_distances) {
  std::vector<double> shares;
  for (const double square : square_distances)
    shares.push_back(1 / std::max(kLeastDistance, std::sqrt(square)));
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (total == 0) return {};
  for (double& share : shares) share /= total;
  return shares;
}

// The rows' squared distances from z = sum of share * row, out of those from each other (`pairs`):
// |x_i - z|^2 = sum_j s_j |x_i - x_j|^2 - 1/2 sum_jk s_j s_k |x_j - x_k|^2.
std::vector<double> distances_from_mixture(const std::vector<double>& pairs,
                                           const std::vector<double>& shares) {
  const std::size_t n = shares.size();
  std::vector<double> to_row(n, 0.0);
  double spread = 0;
  for (std::size_t i = 0; i < n; ++i) {
    // A row without a share may be infinitely far.
    for (std::size_t j = 0; j < n; ++j)
      if (shares[j] > 0) to_row[i] += shares[j] * pairs[i * n + j];
    if (shares[i] > 0) spread += 0.5 * shares[i] * to_row[i];
  }
  for (double& square : to_row) square = std::max(0.0, square - spread);
  return to_row;
}

}  // namespace

at::Tensor geometric_median(const GradientRows& rows, const RuleSettings& settings) {
  const std::vector<double> pairs = rows.pair_square_distances();
  std::vector<double> sorted;
  std::vector<double> shares =
      weiszfeld_shares(rows.square_distances([&](const RowBlock& block, std::span<double> into) {
        sorted.assign(block.values.begin(), block.values.end());
        RowBlock copy = block;
        copy.values = sorted;
        take_medians(copy, into);
      }));
  if (shares.empty()) return median(rows, settings);
  for (int i = 1; i < kWeiszfeldIterations; ++i) {
    std::vector<double> next = weiszfeld_shares(distances_from_mixture(pairs, shares));
    if (next == shares) break;
    shares = std::move(next);
  }
  return rows.weighted_sum(shares);
}

}  // namespace paceline::strategy::rules
