#include <gtest/gtest.h>

#include <set>

#include "paceline/core/collective/building/balanced_tree.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective::all_to_all_bruck {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_to_all, "bruck");
}

TEST(BruckAllToAll, EveryRankSendsOneMessageARoundAndEachRoundGoesTwiceAsFar) {
  for (int ranks = 2; ranks <= 33; ++ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      const Program program = algorithm().build({.ranks = ranks, .rank = rank});
      ASSERT_EQ(program.rounds.size(), static_cast<std::size_t>(tree_levels(ranks)));
      for (std::size_t r = 0; r < program.rounds.size(); ++r) {
        for (const Step& step : program.rounds[r]) {
          if (step.kind != Step::Kind::send) continue;
          EXPECT_EQ(step.peer, (rank + (1 << r)) % ranks);
        }
      }
    }
  }
}

TEST(BruckAllToAll, SendsHalfOfItsInputARoundForAPowerOfTwo) {
  for (const int ranks : {2, 4, 8, 16, 32}) {
    EXPECT_EQ(proof_of(algorithm(), ranks).sent_chunks,
              std::vector<long>(static_cast<std::size_t>(ranks), tree_levels(ranks) * ranks / 2));
  }
}

TEST(BruckAllToAll, StagesNoMoreChunksAtATimeThanItsInputHas) {
  for (int ranks = 1; ranks <= 33; ++ranks) {
    for (const Program& program : programs_of(algorithm(), ranks)) {
      std::set<Slot> staged;
      for (const Round& round : program.rounds) {
        for (const Step& step : round) {
          if (step.target.space == Slot::Space::scratch) staged.insert(step.target);
        }
        for (const Step& step : round) {
          if (step.source.space != Slot::Space::scratch) continue;
          EXPECT_EQ(staged.erase(step.source), 1U);
        }
        EXPECT_LE(staged.size(), static_cast<std::size_t>(ranks));
      }
      EXPECT_TRUE(staged.empty());
    }
  }
}

}  // namespace
}  // namespace paceline::collective::all_to_all_bruck
