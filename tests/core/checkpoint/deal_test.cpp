#include "paceline/core/checkpoint/deal.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::checkpoint {
namespace {

TEST(Deal, SharesDifferByAtMostTheLargestTensor) {
  SeededNumbers numbers(test::seed(1));
  for (int round = 0; round < 300; ++round) {
    std::vector<std::uint64_t> bytes(numbers.below(40));
    for (auto& one : bytes) one = numbers.below(1 << numbers.below(20));
    const int ranks = 1 + static_cast<int>(numbers.below(9));
    std::vector<std::uint64_t> shares(static_cast<std::size_t>(ranks), 0);
    const auto rank_of = deal(bytes, ranks);
    ASSERT_EQ(rank_of.size(), bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i)
      shares.at(static_cast<std::size_t>(rank_of[i])) += bytes[i];
    const auto [least, most] = std::ranges::minmax(shares);
    EXPECT_LE(most - least, bytes.empty() ? 0 : std::ranges::max(bytes));
  }
}

}  // namespace
}  // namespace paceline::checkpoint
