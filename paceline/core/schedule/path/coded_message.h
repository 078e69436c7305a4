// Makes the averaging that compresses a message of a plan.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "paceline/core/compress/averaging/fused.h"
#include "paceline/core/compress/methods/compression.h"
#include "paceline/core/schedule/path/dispatch.h"

namespace paceline::schedule {

struct MessageContext {
  int rank = 0, ranks = 1;
  std::uint64_t seed = 0;                                   // the run's seed
  std::shared_ptr<compress::SpareMemory> spares = nullptr;  // shared by all messages
};

// A tensor, or the piece of it that lies in a message.
struct PlacedPart {
  compress::AveragedTensor part;
  int place = 0;          // the tensor's, in the send order
  std::size_t begin = 0;  // first element, in the tensor
  int offer = 0;          // the tensor's offer of the compression
};
// The parts of a message. A tensor cut by messages counts as several tensors. A piece of a tensor,
// or a tensor of unknown shape, is a matrix of two rows if its length is even, else a vector, which
// travels whole.
std::vector<PlacedPart> parts_of(const Dispatch& dispatch, const Model& model, int message,
                                 const MessageContext& place);

// Neighbouring elements of a message that travel alike, where the compression only casts.
struct CastRun {
  std::size_t begin = 0, elements = 0;  // in the message's group
  bool is_whole = false;                // they are not cast
};
// `begin`: of the message, in its group.
std::vector<CastRun> cast_runs_of(std::span<const PlacedPart> parts,
                                  const compress::Compression& compression, std::size_t begin);

// The averaging of a message's elements. Each part is averaged by itself with its own offer, small
// ones as `compression` says.
std::unique_ptr<compress::Averaging> averaging_of(std::span<const PlacedPart> parts,
                                                  const compress::Compression& compression);

}  // namespace paceline::schedule
