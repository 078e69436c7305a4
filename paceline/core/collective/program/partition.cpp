#include "paceline/core/collective/program/partition.h"

#include <algorithm>

namespace paceline::collective {

Partition Partition::even(std::size_t count, int chunks) {
  Partition partition;
  for (int i = 0; i < chunks; ++i) {
    const std::size_t begin = chunk_offset(count, chunks, i);
    partition.chunks.push_back({begin, chunk_offset(count, chunks, i + 1) - begin});
  }
  return partition;
}

Partition Partition::of(const std::vector<std::size_t>& chunk_counts) {
  Partition partition;
  std::size_t offset = 0;
  for (const std::size_t count : chunk_counts) {
    partition.chunks.push_back({offset, count});
    offset += count;
  }
  return partition;
}

std::size_t Partition::count() const {
  std::size_t sum = 0;
  for (const ElementRange& chunk : chunks) sum += chunk.count;
  return sum;
}

std::size_t Partition::longest() const {
  std::size_t longest = 0;
  for (const ElementRange& chunk : chunks) longest = std::max(longest, chunk.count);
  return longest;
}

Partition Partition::segment(int segment, int segments) const {
  Partition piece;
  for (const ElementRange& chunk : chunks) {
    const std::size_t begin = chunk_offset(chunk.count, segments, segment);
    const std::size_t end = chunk_offset(chunk.count, segments, segment + 1);
    piece.chunks.push_back({chunk.offset + begin, end - begin});
  }
  return piece;
}

Partition Partition::piece(int segment, std::size_t longest) const {
  Partition piece;
  for (const ElementRange& chunk : chunks) {
    const std::size_t begin = std::min(chunk.count, static_cast<std::size_t>(segment) * longest);
    piece.chunks.push_back({chunk.offset + begin, std::min(longest, chunk.count - begin)});
  }
  return piece;
}

}  // namespace paceline::collective
