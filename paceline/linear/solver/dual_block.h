// The dual variables of some samples, and steps that each maximise the dual objective along one of
// them (stochastic dual coordinate ascent, SDCA; the closed forms are the losses').
#pragma once

#include <span>
#include <vector>

#include "paceline/linear/data/samples.h"
#include "paceline/linear/loss/loss.h"

namespace paceline::linear {

class DualBlock {
 public:
  // A step of a dual variable by d moves the weights by stretch * d * x_i / scale. `scale` is
  // lambda n, n counting the samples of all ranks. A `stretch` (CoCoA's sigma') above 1 makes steps
  // as careful as if so many blocks of equal samples stepped at once. The references outlive the
  // block.
  DualBlock(const Samples& samples, const ChosenLoss& loss, double scale, double stretch = 1);

  // One step of sample i's variable, at these weights, which it moves.
  void step(std::size_t i, std::span<double> weights);
  // A step of each sample, in this order.
  void pass(std::span<const std::size_t> order, std::span<double> weights);

  // weights += sum_i a_i x_i / scale, without the stretch.
  void add_to(std::span<double> weights) const;

  // The sum of -loss*(-a_i) over the samples.
  double value() const;

  std::vector<double> variables;  // one for each sample; they begin where the loss says

 private:
  const Samples& samples_;
  const ChosenLoss& loss_;
  const double scale_, stretch_;
  std::vector<double> curvatures_;  // stretch |x_i|^2 / scale
};

}  // namespace paceline::linear
