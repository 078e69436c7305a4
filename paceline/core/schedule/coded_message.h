// What compresses a message of a plan.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "paceline/core/compress/compression.h"
#include "paceline/core/compress/fused.h"
#include "paceline/core/schedule/dispatch.h"

namespace paceline::schedule {

struct Place {
  int rank = 0, ranks = 1;
  std::uint64_t seed = 0;                                   // of the run
  std::shared_ptr<compress::SpareMemory> spares = nullptr;  // of all messages
};

// A tensor, or what of it lies in a message.
struct PlacedPart {
  compress::Part part;
  int place = 0;          // of the tensor in the send order
  std::size_t begin = 0;  // in the tensor
  int offer = 0;          // of the compression's, as the tensor has it
};
// Those of a message. A tensor cut by messages is as many tensors. One that is cut, or whose shape
// is not known, counts as a matrix of two rows where that goes out evenly, else as a vector, which
// travels whole.
std::vector<PlacedPart> parts_of(const Dispatch& dispatch, const Model& model, int message,
                                 const Place& place);

// The averaging of a message's elements, one after the other: each part by itself and by its offer,
// small ones as `compression` says.
std::unique_ptr<compress::Averaging> averaging_of(std::span<const PlacedPart> parts,
                                                  const compress::Compression& compression);

}  // namespace paceline::schedule
