// The codec one_bit (Seide et al. 2014) sends, for each column of a matrix, the mean of its values
// >= 0 and the mean of its negative ones, and a sign for each element. It is a contraction, for use
// with error feedback, and it keeps the sums of columns.
#pragma once

#include "paceline/core/compress/payload/codec.h"

namespace paceline::compress {

// A tensor is a matrix of `columns` columns, stored row by row; its number of elements must be a
// multiple of `columns`. With 1 column, one pair of means serves the whole tensor, which pays below
// 512 rows. THROWS misuse: no columns.
std::unique_ptr<Codec> one_bit_codec(std::size_t columns = 1);

}  // namespace paceline::compress
