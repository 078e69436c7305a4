// Computes the mean by an all_reduce of the values themselves, in 32 or 16 bits.
//
// With fp16 and bf16, each rank adds in f32 and rounds what it sends, so an algorithm that adds up
// at one place (direct) rounds twice in all, others once a hop. Bytes: elements times the size of
// the type. A value that is NaN, infinite or too large for the type makes the mean NaN or infinite
// on all ranks, which serves as the overflow flag.
#pragma once

#include <memory>

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::compress {

// REQUIRES: f32 (the dense mean), f16 or bf16.
std::unique_ptr<Averaging> cast_average(const AveragedTensor& part, Dtype wire);

}  // namespace paceline::compress
