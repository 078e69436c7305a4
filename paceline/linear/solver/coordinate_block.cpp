#include "paceline/linear/solver/coordinate_block.h"

#include <algorithm>
#include <utility>

namespace paceline::linear {

CoordinateBlock::CoordinateBlock(const Problem& problem, SparseColumns columns,
                                 std::span<const double> labels)
    : weights(columns.size()),
      predictions(labels.size()),
      problem_(problem),
      columns_(std::move(columns)),
      labels_(labels) {
  const double scale = problem.loss.smoothness() / static_cast<double>(labels.size());
  for (std::size_t j = 0; j < columns_.size(); ++j)
    curvatures_.push_back(scale * squared_norm(columns_.column(j)) + problem.l2);
}

void CoordinateBlock::step(std::size_t j, double rate) {
  const SparseVector column = columns_.column(j);
  double slope = 0;
  for (std::size_t k = 0; k < column.entries(); ++k) {
    const std::size_t i = column.indices[k];
    slope += column.values[k] * problem_.loss.derivative(predictions[i], labels_[i]);
  }
  move(j, rate, slope / static_cast<double>(labels_.size()));
}

void CoordinateBlock::step(std::size_t j, double rate, std::span<const std::size_t> samples) {
  const SparseVector column = columns_.column(j);
  double slope = 0;
  for (const std::size_t i : samples) {
    const auto found = std::ranges::lower_bound(column.indices, i);
    if (found == column.indices.end() || *found != i) continue;
    const auto k = static_cast<std::size_t>(found - column.indices.begin());
    slope += column.values[k] * problem_.loss.derivative(predictions[i], labels_[i]);
  }
  move(j, rate, slope / static_cast<double>(samples.size()));
}

void CoordinateBlock::move(std::size_t j, double rate, double slope_of_loss) {
  const double slope = slope_of_loss + problem_.l2 * weights[j];
  const double next = soft_threshold(weights[j] - rate * slope, rate * problem_.l1);
  add(next - weights[j], columns_.column(j), predictions);
  weights[j] = next;
}

void CoordinateBlock::step(std::size_t j) {
  if (curvatures_[j] > 0) step(j, 1 / curvatures_[j]);
}

}  // namespace paceline::linear
