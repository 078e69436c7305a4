// Deep gradient compression (Lin et al. 2018): the largest elements of the accumulated momentum.
//
//   g = gradient, cut to the norm clip / sqrt(ranks)
//   u = m u + g,      v = v + u            (Nesterov: u = m (u + g), v = v + u + g)
//   the largest of |v| are sent; u (masking) and v are 0 there afterwards
//
// Plain SGD must apply the mean, which already contains momentum. Bytes: 8 k a rank, with k = ratio
// N, and somewhat less if the threshold comes from a sample.
#pragma once

#include <memory>

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

struct MomentumSelectionOptions {
  double ratio = 0.001;  // of the elements, in (0, 1]
  float momentum = 0.9f;
  bool nesterov = false;
  // Stops the momentum of elements that were sent. It begins only after the warm-up, because with a
  // high ratio it takes most of the momentum away (docs/compression/dgc.md).
  bool masking = true;
  double clip = 0;      // the largest norm of the tensor's mean gradient; 0: any
  bool sampled = true;  // the threshold comes from a sample; else the selection is exact
  // The ratio falls in `warm_up_stages` stages of equal length, beginning at ratio^(1 / (stages +
  // 1)): 25 %, 6.25 %, 1.6 %, 0.4 % on the way to 0.1 %.
  std::uint32_t warm_up_steps = 0;
  int warm_up_stages = 4;
};

// The ratio in effect at a step.
double ratio_at(const MomentumSelectionOptions& options, std::uint32_t step);

std::unique_ptr<Averaging> momentum_selection_average(const AveragedTensor& part,
                                                      const MomentumSelectionOptions& options = {});

// The dense mean, turned into momentum SGD's direction, for tensors that are not worth compressing
// beside those: plain SGD then serves both. u = m u + mean; the result is u (Nesterov: mean + m u).
std::unique_ptr<Averaging> momentum_average(const AveragedTensor& part, float momentum,
                                            bool nesterov);

}  // namespace paceline::compress
