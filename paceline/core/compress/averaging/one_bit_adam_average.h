// 1-bit Adam (Tang et al. 2021): once Adam's variance has settled, momenta are averaged instead of
// gradients, by signs both ways (two_stage_average.h).
//
// The result is not a mean gradient but Adam's direction, momentum / (sqrt(variance) + epsilon),
// for plain SGD to apply. Before freeze_step the steps are Adam of the dense mean, without bias
// correction as in the authors' program; from freeze_step on the variance is frozen.
#pragma once

#include <memory>

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

struct OneBitAdamOptions {
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
  std::uint32_t freeze_step = 100000;
};

std::unique_ptr<Averaging> one_bit_adam_average(const Part& part,
                                                const OneBitAdamOptions& options = {});

}  // namespace paceline::compress
