#include "paceline/core/pipeline/order/order.h"

#include <gtest/gtest.h>

namespace paceline::pipeline {
namespace {

TEST(Order, AStageIsAChunkOfTheRankThatItsNumberModuloTheRanksNames) {
  const Placement placement{.ranks = 3, .stages = 6};
  EXPECT_EQ(placement.chunks(), 2);
  for (int stage = 0; stage < 6; ++stage) EXPECT_EQ(placement.rank_of(stage, 5), stage % 3);
}

TEST(Order, ReplicasOfAStageTakeMicroBatchesInTurn) {
  const Placement placement{.ranks = 4, .stages = 3, .replicas = {2, 1, 1}};
  EXPECT_EQ(placement.chunks(), 1);
  EXPECT_EQ(placement.rank_of(0, 4), 0);
  EXPECT_EQ(placement.rank_of(0, 5), 1);
  EXPECT_EQ(placement.rank_of(1, 5), 2);
  EXPECT_EQ(placement.rank_of(2, 5), 3);
}

TEST(Order, AnInputComesFromTheNeighbourOrFromTheSameStage) {
  using Operations = std::vector<Operation>;
  EXPECT_EQ(inputs_of({Kind::forward, 0, 7}, 3), Operations{});
  EXPECT_EQ(inputs_of({Kind::forward, 2, 7}, 3), (Operations{{Kind::forward, 1, 7}}));
  EXPECT_EQ(inputs_of({Kind::backward, 2, 7}, 3), (Operations{{Kind::forward, 2, 7}}));
  EXPECT_EQ(inputs_of({Kind::backward, 1, 7}, 3),
            (Operations{{Kind::forward, 1, 7}, {Kind::backward, 2, 7}}));
  EXPECT_EQ(inputs_of({Kind::weight, 1, 7}, 3), (Operations{{Kind::backward, 1, 7}}));
}

TEST(Order, SuccessorAndPredecessorAreEachOthersInverse) {
  for (const Kind kind : {Kind::forward, Kind::backward, Kind::weight}) {
    for (int stage = 0; stage < 4; ++stage) {
      const Operation one{kind, stage, 2};
      if (const auto next = successor_of(one, 4)) {
        EXPECT_EQ(predecessor_of(*next, 4), one);
      }
      if (const auto last = predecessor_of(one, 4)) {
        EXPECT_EQ(successor_of(*last, 4), one);
      }
    }
  }
  EXPECT_EQ(successor_of({Kind::weight, 1, 2}, 4), std::nullopt);
}

TEST(Order, AnOperationIsNamedInWords) {
  EXPECT_EQ(text_of({Kind::weight, 1, 3}), "the weight gradient of micro-batch 3 on stage 1");
}

TEST(Placement, TheStagesOfARankAreThoseThatItIsARankOf) {
  for (const Placement& placement : {Placement{1, 1}, Placement{3, 3}, Placement{2, 6},
                                     Placement{4, 2, {3, 1}}, Placement{6, 3, {1, 3, 2}}}) {
    for (int rank = 0; rank < placement.ranks; ++rank) {
      std::vector<int> expected;
      for (int stage = 0; stage < placement.stages; ++stage)
        for (int j = 0; j < placement.replicas_of(stage); ++j)
          if (placement.rank_of(stage, j) == rank) expected.push_back(stage);
      EXPECT_EQ(placement.stages_of(rank), expected);
    }
  }
}

}  // namespace
}  // namespace paceline::pipeline
