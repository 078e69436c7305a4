// What compresses a message of a plan.
#pragma once

#include <cstdint>
#include <memory>

#include "paceline/core/compress/compression.h"
#include "paceline/core/compress/fused.h"
#include "paceline/core/schedule/dispatch.h"

namespace paceline::schedule {

struct Place {
  int rank = 0, ranks = 1;
  std::uint64_t seed = 0;  // of the run
};

// The averaging of a message's elements, one after the other: each tensor by itself, or the part of
// it that lies in this message, as small ones as `compression` says. A tensor cut by messages is as
// many tensors. One that is cut, or whose shape is not known, counts as a matrix of two rows where
// that goes out evenly, else as a vector, which travels whole.
std::unique_ptr<compress::Averaging> averaging_of(const Dispatch& dispatch, const Model& model,
                                                  int message,
                                                  const compress::Compression& compression,
                                                  const Place& place);

}  // namespace paceline::schedule
