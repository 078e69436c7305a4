#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/app/launch/ending/server_keeper.h"
#include "paceline/core/server/control/chain_report.h"
#include "paceline/core/server/table/chain.h"

namespace paceline::launch {
namespace {

using server::Chain;
using server::ChainReport;
using ::testing::ElementsAre;

std::vector<Chain> chains_in(const std::optional<std::vector<std::byte>>& map) {
  if (!map) return {};
  auto chains = server::parse_chains(*map);
  return std::move(chains).value();
}

// Two ranks; the servers 2 and 3 keep two chains.
TEST(ControllerKeeper, TellsTheChainsWhenTheyHaveChangedAndCountsServersThatAreReady) {
  const auto keeper = keeper_of_chains(2, 2, 2);
  EXPECT_EQ(keeper->take_map(), std::nullopt) << "members begin with the first chains";
  EXPECT_TRUE(keeper->may_lose(2));
  keeper->died(2, true);
  EXPECT_FALSE(keeper->may_lose(3)) << "nobody else has anything";
  auto chains = chains_in(keeper->take_map());
  ASSERT_EQ(chains.size(), 2U);
  EXPECT_THAT(chains[0].servers, ElementsAre(3));
  EXPECT_EQ(keeper->take_map(), std::nullopt);

  keeper->came(4);
  EXPECT_FALSE(keeper->is_ready(4));
  chains = chains_in(keeper->take_map());
  EXPECT_EQ(chains[0].joiner, 4);
  EXPECT_EQ(chains[1].joiner, 4);
  keeper->reported(3,
                   server::encode(std::vector<ChainReport>{{0, chains[0].generation, true, true},
                                                           {1, chains[1].generation, true, true}}));
  chains = chains_in(keeper->take_map());
  EXPECT_THAT(chains[1].servers, ElementsAre(3, 4));
  EXPECT_FALSE(keeper->may_lose(3)) << "4 is not ready";
  keeper->reported(
      4, server::encode(std::vector<ChainReport>{{0, chains[0].generation, true, false},
                                                 {1, chains[1].generation, true, false}}));
  EXPECT_TRUE(keeper->is_ready(4));
  EXPECT_TRUE(keeper->may_lose(3));
}

TEST(ControllerKeeper, LeavesAsideReportsThatMakeNoSense) {
  const auto keeper = keeper_of_chains(2, 2, 2);
  keeper->reported(3, std::vector<std::byte>(5));
  keeper->reported(77, server::encode(std::vector<ChainReport>{{9, 1, true, true}}));
  EXPECT_EQ(keeper->take_map(), std::nullopt);
}

}  // namespace
}  // namespace paceline::launch
