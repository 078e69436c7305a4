#include "paceline/core/collective/program/partition.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace paceline::collective {
namespace {

constexpr std::size_t kCounts[] = {0, 1, 2, 3, 7, 16, 17, 1000, 1003, 65537};

// Chunks lie one after the other, from 0 to the end.
void expect_contiguous(const Partition& partition, std::size_t count) {
  std::size_t end = 0;
  for (const ElementRange& chunk : partition.chunks) {
    EXPECT_EQ(chunk.offset, end);
    end += chunk.count;
  }
  EXPECT_EQ(end, count);
  EXPECT_EQ(partition.count(), count);
}

TEST(Partition, CoversEachElementOnceForAnyCount) {
  for (const std::size_t count : kCounts) {
    for (int chunks = 1; chunks <= 33; ++chunks) {
      expect_contiguous(Partition::even(count, chunks), count);
    }
  }
}

TEST(Partition, MakesChunksThatDifferByOneAtMostAndNeverGrow) {
  for (const std::size_t count : kCounts) {
    for (int chunks = 1; chunks <= 33; ++chunks) {
      const Partition partition = Partition::even(count, chunks);
      const std::size_t first = partition.chunks.front().count,
                        last = partition.chunks.back().count;
      EXPECT_LE(first - last, 1u);
      EXPECT_TRUE(
          std::ranges::is_sorted(partition.chunks, std::ranges::greater(), &ElementRange::count));
      EXPECT_EQ(partition.longest(), first);
    }
  }
}

TEST(Partition, LeavesChunksEmptyWhenThereAreFewerElements) {
  const Partition partition = Partition::even(2, 4);
  EXPECT_EQ(partition.chunks, (std::vector<ElementRange>{{0, 1}, {1, 1}, {2, 0}, {2, 0}}));
}

TEST(Partition, OfCountsKeepsThemInOrderAlsoEmptyOnes) {
  const Partition partition = Partition::of({5, 0, 7});
  EXPECT_EQ(partition.chunks, (std::vector<ElementRange>{{0, 5}, {5, 0}, {5, 7}}));
  EXPECT_EQ(partition.count(), 12u);
  EXPECT_EQ(partition.longest(), 7u);
  EXPECT_EQ(Partition::of({}).count(), 0u);
  EXPECT_EQ(Partition::of({}).longest(), 0u);
}

TEST(Partition, SegmentsTogetherAreThePartition) {
  for (const Partition& whole : {Partition::even(1003, 7), Partition::of({0, 5, 1, 100})}) {
    for (const int segments : {1, 2, 3, 8}) {
      std::vector<std::size_t> end;
      for (const ElementRange& chunk : whole.chunks) end.push_back(chunk.offset);
      for (int i = 0; i < segments; ++i) {
        const Partition piece = whole.segment(i, segments);
        ASSERT_EQ(piece.chunks.size(), whole.chunks.size());
        for (std::size_t c = 0; c < end.size(); ++c) {
          EXPECT_EQ(piece.chunks[c].offset, end[c]);
          end[c] += piece.chunks[c].count;
        }
      }
      for (std::size_t c = 0; c < end.size(); ++c) {
        EXPECT_EQ(end[c], whole.chunks[c].offset + whole.chunks[c].count);
      }
    }
  }
}

TEST(Partition, PiecesOfOneLengthTogetherAreThePartition) {
  const Partition whole = Partition::of({0, 5, 1, 100});
  std::vector<std::size_t> end;
  for (const ElementRange& chunk : whole.chunks) end.push_back(chunk.offset);
  for (int i = 0; i < 15; ++i) {
    const Partition piece = whole.piece(i, 7);
    for (std::size_t c = 0; c < end.size(); ++c) {
      EXPECT_EQ(piece.chunks[c].offset, end[c]);
      EXPECT_LE(piece.chunks[c].count, 7U);
      end[c] += piece.chunks[c].count;
    }
  }
  for (std::size_t c = 0; c < end.size(); ++c)
    EXPECT_EQ(end[c], whole.chunks[c].offset + whole.chunks[c].count);
}

TEST(Partition, OffsetsFollowTheChunkRule) {
  // off(i) = i * (n div p) + min(i, n mod p): the chunk rule of collective/program/partition.h.
  EXPECT_EQ(chunk_offset(10, 4, 0), 0u);
  EXPECT_EQ(chunk_offset(10, 4, 1), 3u);
  EXPECT_EQ(chunk_offset(10, 4, 2), 6u);
  EXPECT_EQ(chunk_offset(10, 4, 3), 8u);
  EXPECT_EQ(chunk_offset(10, 4, 4), 10u);
}

}  // namespace
}  // namespace paceline::collective
