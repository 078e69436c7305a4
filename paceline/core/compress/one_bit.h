// The codec one_bit (Seide et al. 2014): for each column of a matrix the mean of its values that
// are not negative and the mean of those that are, and a sign for each element. A contraction, to
// be used with error feedback; it keeps the sums of columns.
#pragma once

#include "paceline/core/compress/codec.h"

namespace paceline::compress {

// Tensors are matrices of so many columns, row by row; their elements must be a multiple of it.
// 1: one pair of means for the whole tensor, which pays below 512 rows. THROWS misuse: no columns.
std::unique_ptr<Codec> one_bit_codec(std::size_t columns = 1);

}  // namespace paceline::compress
