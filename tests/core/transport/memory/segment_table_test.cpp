#include "paceline/core/transport/memory/segment_table.h"

#include <gtest/gtest.h>

#include "tests/support/shared_memory.h"

namespace paceline::transport {
namespace {

TEST(SegmentTable, FindsWhatLiesWhollyInOneSegment) {
  SegmentTable table;
  const auto one = test::shared_memory_of(8192), other = test::shared_memory_of(4096);
  table.add(3, one);
  table.add(9, other);
  EXPECT_EQ(table.find(one->bytes()), (Remote{3, 0}));
  EXPECT_EQ(table.find(one->bytes().subspan(100, 50)), (Remote{3, 100}));
  EXPECT_EQ(table.find(other->bytes().last(1)), (Remote{9, 4095}));
  EXPECT_EQ(table.find(one->bytes().last(0)), (Remote{3, 8192}));
  EXPECT_EQ(table.find({one->bytes().data() + 8000, 193}), std::nullopt)
      << "it sticks out by one byte";
  const std::vector<std::byte> heap(64);
  EXPECT_EQ(table.find(heap), std::nullopt);
}

TEST(SegmentTable, LendsToBeWrittenWhatCanBeTakenBack) {
  SegmentTable table;
  const auto one = test::shared_memory_of(4 * 4096);
  table.add(3, one);
  EXPECT_EQ(table.share(one->bytes()), (SharedRegion{{3, 0}, {0, 4 * 4096}}));
  EXPECT_EQ(table.share(one->bytes().subspan(64, 8192)), (SharedRegion{{3, 64}, {4096, 8192}}));
  EXPECT_EQ(table.share(one->bytes().subspan(64, 100)), (SharedRegion{{3, 64}, {}}));
  EXPECT_EQ(table.share(std::vector<std::byte>(64)), std::nullopt);
}

TEST(SegmentTable, WhatWasTakenBackIsOrdinaryMemory) {
  SegmentTable table;
  const auto one = test::shared_memory_of(4 * 4096);
  table.add(3, one);
  ASSERT_TRUE(one->take_back({4096, 8192}));
  EXPECT_EQ(table.find(one->bytes()), std::nullopt);
  EXPECT_EQ(table.share(one->bytes().first(4096)), std::nullopt);
}

TEST(SegmentTable, ARemovedSegmentIsNotFound) {
  SegmentTable table;
  const auto one = test::shared_memory_of(4096);
  EXPECT_EQ(table.find(one->bytes()), std::nullopt);
  table.add(1, one);
  table.remove(2);
  EXPECT_TRUE(table.find(one->bytes()));
  table.remove(1);
  EXPECT_EQ(table.find(one->bytes()), std::nullopt);
  EXPECT_TRUE(table.segments().empty());
}

}  // namespace
}  // namespace paceline::transport
