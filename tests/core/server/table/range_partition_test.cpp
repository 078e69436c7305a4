#include "paceline/core/server/table/range_partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

TEST(RangePartition, TheLargestLoadIsNearTheMean) {
  SeededNumbers numbers(test::seed(2890000));
  for (int number = 0; number < 300; ++number) {
    std::vector<std::size_t> sizes(1 + numbers.below(60));
    const std::uint64_t most = 1 + numbers.below(1'000'000);
    for (std::size_t& size : sizes) size = 1 + numbers.below(most);
    const int bins = 1 + static_cast<int>(numbers.below(9));
    std::vector<std::size_t> loads(static_cast<std::size_t>(bins));
    const std::vector<int> bin_of = balanced_bins(sizes, bins);
    for (std::size_t i = 0; i < sizes.size(); ++i)
      loads[static_cast<std::size_t>(bin_of[i])] += sizes[i];
    const std::size_t sum = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    EXPECT_LE(*std::ranges::max_element(loads) * loads.size(),
              sum + (loads.size() - 1) * *std::ranges::max_element(sizes));
  }
}

TEST(RangePartition, EveryElementIsInOneRangeAndServersAreBalanced) {
  SeededNumbers numbers(test::seed(2900000));
  for (int number = 0; number < 300; ++number) {
    const std::size_t elements = 1 + numbers.below(5000), part = 1 + numbers.below(100);
    const int servers = 1 + static_cast<int>(numbers.below(9));
    std::vector<int> owners(elements);
    std::vector<std::size_t> loads(static_cast<std::size_t>(servers));
    const std::vector<TableRange> ranges = partition(elements, servers, part);
    EXPECT_LE(ranges.size(), static_cast<std::size_t>(kRangesPerServer * servers));
    for (const TableRange& range : ranges) {
      std::size_t count = 0;
      EXPECT_TRUE(std::ranges::is_sorted(range.parts, {}, &ElementSpan::begin));
      for (const ElementSpan& one : range.parts) {
        EXPECT_LE(one.count, part) << "a part is not cut again";
        count += one.count;
        for (std::size_t i = one.begin; i < one.begin + one.count; ++i) ++owners[i];
      }
      EXPECT_EQ(count, range.elements);
      loads[static_cast<std::size_t>(range.server)] += count;
    }
    EXPECT_EQ(std::ranges::count(owners, 1), std::ssize(owners));
    const auto [least, most] = std::ranges::minmax(loads);
    EXPECT_LE(most - least, kRangesPerServer * part);
  }
}

TEST(RangePartition, NeighbouringPartsLieOnDifferentServers) {
  const std::vector<TableRange> ranges = partition(4096, 4, 64);
  std::vector<int> server_of(64);
  for (const TableRange& range : ranges)
    for (const ElementSpan& part : range.parts) server_of[part.begin / 64] = range.server;
  for (std::size_t i = 0; i + 4 <= server_of.size(); ++i) {
    std::vector<int> four(server_of.begin() + static_cast<std::ptrdiff_t>(i),
                          server_of.begin() + static_cast<std::ptrdiff_t>(i) + 4);
    std::ranges::sort(four);
    EXPECT_EQ(four, (std::vector<int>{0, 1, 2, 3}));
  }
}

}  // namespace
}  // namespace paceline::server
