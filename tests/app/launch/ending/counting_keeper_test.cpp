#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "paceline/app/launch/ending/server_keeper.h"
#include "paceline/core/base/seed.h"
#include "paceline/core/transport/frame/wire.h"
#include "tests/support/seed.h"

namespace paceline::launch {
namespace {

using ::testing::ElementsAre;

constexpr int kWorkers = 2;  // servers are numbered from here on

std::vector<std::vector<int>> chains_in(const std::vector<std::byte>& map) {
  std::vector<std::vector<int>> chains;
  for (transport::WireReader reader(map); !reader.rest().empty();) {
    chains.emplace_back(reader.integer<std::uint32_t>());
    for (int& member : chains.back()) member = reader.integer<std::int32_t>();
  }
  return chains;
}

TEST(CountingKeeper, AServerMayBeLostWhileANeighbourHasTheSame) {
  const auto keeper = counting_keeper(kWorkers, 3, 2);
  EXPECT_FALSE(keeper->take_map()) << "all know the chains of the beginning";
  for (const int member : {2, 3, 4}) EXPECT_TRUE(keeper->may_lose(member));
  keeper->died(3);
  EXPECT_THAT(chains_in(keeper->take_map().value()),
              ElementsAre(ElementsAre(2), ElementsAre(4), ElementsAre(4, 2)));
  EXPECT_FALSE(keeper->may_lose(2));
  EXPECT_FALSE(keeper->may_lose(4));
}

TEST(CountingKeeper, ANewcomerHasNothingUntilItReports) {
  const auto keeper = counting_keeper(kWorkers, 3, 2);
  keeper->died(3);
  (void)keeper->take_map();
  keeper->came(5);
  EXPECT_FALSE(keeper->is_ready(5));
  EXPECT_FALSE(keeper->may_lose(2));
  EXPECT_TRUE(keeper->may_lose(5)) << "it has nothing yet";
  EXPECT_FALSE(keeper->take_map());
  keeper->reported(5, {});
  EXPECT_TRUE(keeper->is_ready(5));
  EXPECT_TRUE(keeper->may_lose(2));
  EXPECT_THAT(chains_in(keeper->take_map().value()),
              ElementsAre(ElementsAre(2, 5), ElementsAre(4, 5), ElementsAre(4, 2)));
}

TEST(CountingKeeper, ThePlaceOfANewcomerThatDiesIsTheNextOnes) {
  const auto keeper = counting_keeper(kWorkers, 2, 2);
  keeper->died(2);
  keeper->came(4);
  keeper->died(4);
  keeper->came(5);
  keeper->reported(4, {});
  EXPECT_FALSE(keeper->may_lose(3)) << "what a dead one says means nothing";
  keeper->reported(5, {});
  EXPECT_TRUE(keeper->may_lose(3));
}

TEST(CountingKeeper, WithOneReplicaNobodyMayBeLost) {
  const auto keeper = counting_keeper(1, 2, 1);
  EXPECT_FALSE(keeper->may_lose(1));
  EXPECT_FALSE(keeper->may_lose(2));
}

// Against the law itself: a chain is lost when none of its ready members lives.
TEST(CountingKeeper, SaysWhatCountingAllMembersSaysUnderAnyDeaths) {
  SeededNumbers numbers(test::seed(45));
  for (int trial = 0; trial < 300; ++trial) {
    const int servers = 1 + static_cast<int>(numbers.below(6));
    const int replicas = 1 + static_cast<int>(numbers.below(std::min<std::uint64_t>(3, servers)));
    const auto keeper = counting_keeper(kWorkers, servers, replicas);
    std::vector<std::set<int>> ready(static_cast<std::size_t>(servers));
    for (int chain = 0; chain < servers; ++chain)
      for (int place = 0; place < replicas; ++place)
        ready[static_cast<std::size_t>(chain)].insert(kWorkers + (chain + place) % servers);
    std::set<int> alive;
    for (int server = 0; server < servers; ++server) alive.insert(kWorkers + server);
    while (!alive.empty()) {
      const int victim = *std::next(alive.begin(), static_cast<long>(numbers.below(alive.size())));
      bool is_borne = true;
      for (std::set<int>& chain : ready) {
        chain.erase(victim);
        is_borne = is_borne && !chain.empty();
      }
      EXPECT_EQ(keeper->may_lose(victim), is_borne) << servers << " x " << replicas;
      keeper->died(victim);
      alive.erase(victim);
      if (!is_borne) break;
    }
  }
}

}  // namespace
}  // namespace paceline::launch
