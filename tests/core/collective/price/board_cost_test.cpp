#include "paceline/core/collective/price/board_cost.h"

#include <gtest/gtest.h>

namespace paceline::collective {
namespace {

using topology::LinkClass;

topology::Topology on_two_cores(int ranks) {
  return topology::one_host(ranks, 2, LinkClass::memory);
}

TEST(BoardCost, GrowsWithRanksAndWithBytes) {
  const topology::Profile profile;
  for (const std::size_t bytes : {4, 4 << 10, 64 << 10, 1 << 20}) {
    double before = 0;
    for (const int ranks : {2, 8, 32, 128}) {
      const double now = board_cost(bytes, 2, on_two_cores(ranks), profile);
      EXPECT_GT(now, before) << bytes << " bytes, " << ranks << " ranks";
      before = now;
    }
  }
  for (const int ranks : {8, 64}) {
    EXPECT_GT(board_cost(1 << 20, 2, on_two_cores(ranks), profile),
              2 * board_cost(256 << 10, 2, on_two_cores(ranks), profile));
  }
}

TEST(BoardCost, IsSharedByTheOwnersThatRunAtATime) {
  const topology::Profile profile;
  const auto eight_cores = topology::one_host(8, 8, LinkClass::memory);
  EXPECT_LT(board_cost(4 << 20, 8, eight_cores, profile),
            board_cost(4 << 20, 8, on_two_cores(8), profile) / 3);
}

TEST(BoardCost, AssentOfManyRanksGrowsNoFasterThanTheirNumber) {
  const topology::Profile profile;
  const double of_32 = agreement_cost(on_two_cores(32), profile),
               of_128 = agreement_cost(on_two_cores(128), profile);
  EXPECT_GT(of_128, of_32);
  EXPECT_LT(of_128, 4.1 * of_32);
}

}  // namespace
}  // namespace paceline::collective
