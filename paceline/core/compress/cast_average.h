// The mean by an all_reduce of the values themselves, in 32 or 16 bits.
//
// fp16 and bf16: a sum is made in f32 inside each rank and rounded where it travels, so an
// algorithm that adds up at one place (direct) rounds twice in all, others once a hop. Bytes:
// elements times the size of the type. What is NaN, infinite or too large for the type makes the
// mean NaN or infinite on all ranks, which is the overflow flag.
#pragma once

#include <memory>

#include "paceline/core/compress/averaging.h"

namespace paceline::compress {

// REQUIRES: f32 (the dense mean), f16 or bf16.
std::unique_ptr<Averaging> cast_average(const Part& part, Dtype wire);

}  // namespace paceline::compress
