#include "paceline/linear/problem/objective.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace paceline::linear {
namespace {

void sum_over_ranks(Communicator& group, std::span<double> values) {
  if (group.size() > 1) group.all_reduce(buffer_of(values)).wait();
}

// The factor in (0, 1] by which v must be shortened so that R*(v) is finite.
double shortening(const Problem& problem, std::span<const double> v) {
  if (problem.l2 > 0) return 1;
  double longest = 0;
  for (const double one : v) longest = std::max(longest, std::abs(one));
  return longest <= problem.l1 ? 1 : problem.l1 / longest;
}

}  // namespace

Objective objective(const Problem& problem, const Samples& own, std::size_t total,
                    std::span<const double> weights, std::span<const double> dual_variables,
                    Communicator& group) {
  std::vector<double> predictions(own.size()), duals(own.size());
  std::vector<double> sums(weights.size() + 1);  // sum_i a_i x_i, and the losses
  for (std::size_t i = 0; i < own.size(); ++i) {
    predictions[i] = dot(own.rows.row(i), weights);
    duals[i] = dual_variables.empty() ? -problem.loss.derivative(predictions[i], own.labels[i])
                                      : dual_variables[i];
    add(duals[i], own.rows.row(i), sums);
    sums.back() += problem.loss.value(predictions[i], own.labels[i]);
  }
  sum_over_ranks(group, sums);
  const auto n = static_cast<double>(total);
  const double loss = sums.back() / n;
  const std::span v(sums.data(), weights.size());
  for (double& one : v) one /= n;
  const double shorter = shortening(problem, v);
  double dual_sum = 0;
  for (std::size_t i = 0; i < own.size(); ++i)
    dual_sum += problem.loss.dual_value(shorter * duals[i], own.labels[i]);
  sum_over_ranks(group, std::span(&dual_sum, 1));
  const double conjugate = problem.l2 > 0 ? regulariser_conjugate(problem, v) : 0;
  return {.primal = loss + regulariser(problem, weights), .dual = dual_sum / n - conjugate};
}

std::optional<double> accuracy(const Samples& own, std::span<const double> weights,
                               Communicator& group) {
  std::array<double, 3> counts = {};  // right ones, labels that are no sign, samples
  for (std::size_t i = 0; i < own.size(); ++i) {
    const double sign = dot(own.rows.row(i), weights) > 0 ? 1 : -1;
    counts[0] += own.labels[i] == sign ? 1 : 0;
    counts[1] += std::abs(own.labels[i]) == 1 ? 0 : 1;
    counts[2] += 1;
  }
  sum_over_ranks(group, counts);
  if (counts[1] > 0 || counts[2] == 0) return std::nullopt;
  return counts[0] / counts[2];
}

}  // namespace paceline::linear
