#include "paceline/linear/solver/dual_block.h"

namespace paceline::linear {

DualBlock::DualBlock(const Samples& samples, const ChosenLoss& loss, double scale, double stretch)
    : samples_(samples), loss_(loss), scale_(scale), stretch_(stretch) {
  for (std::size_t i = 0; i < samples.size(); ++i) {
    variables.push_back(loss.start(samples.labels[i]));
    curvatures_.push_back(stretch * squared_norm(samples.rows.row(i)) / scale);
  }
}

void DualBlock::step(std::size_t i, std::span<double> weights) {
  const SparseVector row = samples_.rows.row(i);
  const double next = loss_.dual_maximum({.dual = variables[i],
                                          .label = samples_.labels[i],
                                          .prediction = dot(row, weights),
                                          .curvature = curvatures_[i]});
  add(stretch_ * (next - variables[i]) / scale_, row, weights);
  variables[i] = next;
}

void DualBlock::pass(std::span<const std::size_t> order, std::span<double> weights) {
  for (const std::size_t i : order) step(i, weights);
}

void DualBlock::add_to(std::span<double> weights) const {
  for (std::size_t i = 0; i < samples_.size(); ++i)
    add(variables[i] / scale_, samples_.rows.row(i), weights);
}

double DualBlock::value() const {
  double sum = 0;
  for (std::size_t i = 0; i < samples_.size(); ++i)
    sum += loss_.dual_value(variables[i], samples_.labels[i]);
  return sum;
}

}  // namespace paceline::linear
