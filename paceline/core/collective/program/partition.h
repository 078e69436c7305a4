// A buffer is cut into chunks (one for each rank, mostly), and each chunk into segments.
#pragma once

#include <cstddef>
#include <vector>

#include "paceline/core/base/chunk.h"

namespace paceline::collective {

struct ElementRange {
  std::size_t offset = 0;
  std::size_t count = 0;
  bool operator==(const ElementRange&) const = default;
};

// Segments of one operation that run at the same time: enough that the wait of one hides behind the
// work of others.
constexpr int kSegmentsInFlight = 8;

// The place of each chunk, in elements. Chunks may be empty and of any length; they lie one after
// the other.
struct Partition {
  std::vector<ElementRange> chunks;

  static Partition even(std::size_t count, int chunks);               // by the chunk rule
  static Partition of(const std::vector<std::size_t>& chunk_counts);  // one after the other

  std::size_t count() const;
  std::size_t longest() const;

  // The piece of each chunk that segment `segment` of `segments` carries (the chunk rule again,
  // inside each chunk).
  Partition segment(int segment, int segments) const;
  // The piece of each chunk that segment `segment` carries when each has `longest` elements, the
  // last one of a chunk fewer, and those after it none: where the two ends of a message know the
  // length of its chunk, but not those of all chunks.
  Partition piece(int segment, std::size_t longest) const;
  bool operator==(const Partition&) const = default;
};

}  // namespace paceline::collective
