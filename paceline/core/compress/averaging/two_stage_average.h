// Computes the mean by signs both ways (Tang et al. 2021, "compressed_allreduce" of 1-bit Adam):
// each rank sends every owner its chunk's signs and a scale; the owner adds them up, and sends the
// signs of the mean and their scale to all. Both errors are fed back: the rank's and the owner's.
//
// All ranks together send (2 ceil(N/8) + 8 ranks) (ranks - 1) bytes of payload. Over any steps, sum
// of results + mean(residual) + owner_residual == sum of the mean gradients. Scales are mean
// magnitudes, which lose least; the authors' program has root mean squares, which are no
// contraction for sparse gradients (docs/compression/ef_sign.md).
#pragma once

#include <memory>

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

std::unique_ptr<Averaging> two_stage_average(const AveragedTensor& part);

}  // namespace paceline::compress
