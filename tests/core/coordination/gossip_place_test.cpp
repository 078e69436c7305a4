#include "paceline/core/coordination/gossip_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/coordination/rings.h"

namespace paceline::coordination {
namespace {

using ::testing::HasSubstr;

TEST(GossipPlace, EveryEdgeJoinsAnActiveAndAPassiveRank) {
  const std::vector<std::vector<int>> star_and_pair = {{2}, {3}, {0, 4, 5}, {1}, {2}, {2}};
  for (const auto& graph : {testing::ring(2), testing::ring(8), star_and_pair, {{}}}) {
    const auto places = gossip_places(graph).value();
    ASSERT_EQ(places.size(), graph.size());
    for (std::size_t rank = 0; rank < graph.size(); ++rank) {
      EXPECT_EQ(places[rank].neighbours, graph[rank]);
      for (const int peer : graph[rank])
        EXPECT_NE(places[rank].is_active, places[static_cast<std::size_t>(peer)].is_active);
    }
    EXPECT_TRUE(places[0].is_active);
  }
}

TEST(GossipPlace, ARingOfAnOddNumberOfRanksIsRefusedWithTheRemedy) {
  for (const int ranks : {3, 5, 33}) {
    const auto places = gossip_places(testing::ring(ranks));
    ASSERT_FALSE(places);
    EXPECT_EQ(places.error().fault, Fault::misuse);
    EXPECT_THAT(places.error().what, HasSubstr("on a ring take an even number of ranks"));
    EXPECT_EQ(places.error().ranks.size(), 2u);
  }
}

TEST(GossipPlace, AListThatIsNoGraphIsRefused) {
  for (const auto& graph : std::vector<std::vector<std::vector<int>>>{
           {{0}}, {{1}, {}}, {{2}, {0}}, {{-1}, {}}, {{1}, {0, 1}}})
    EXPECT_FALSE(gossip_places(graph));
}

}  // namespace
}  // namespace paceline::coordination
