#include "paceline/core/collective/mixing/mixing_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/core/collective/mixing/waves.h"

namespace paceline::collective {
namespace {

using ::testing::ElementsAre;

TEST(MixingProgram, SendsTheOwnVectorAndReceivesEachOneInItsPlace) {
  const auto programs = mixing_programs(mixing_graph("ring"), 4);
  ASSERT_EQ(programs.size(), 4u);
  EXPECT_EQ(programs[1].chunks, 4);
  EXPECT_EQ(programs[1].scratch_places, 0);
  ASSERT_EQ(programs[1].rounds.size(), 1u);
  EXPECT_THAT(programs[1].rounds[0], ElementsAre(send(2, input(1)), send(0, input(1)),
                                                 recv(0, output(0)), recv(2, output(2))));
}

TEST(MixingProgram, HasARoundForEachRoundOfThePeriod) {
  const auto programs = mixing_programs(mixing_graph("one_peer"), 8);
  ASSERT_EQ(programs[0].rounds.size(), 3u);
  EXPECT_THAT(programs[0].rounds[0], ElementsAre(send(1, input(0)), recv(7, output(7))));
  EXPECT_THAT(programs[0].rounds[1], ElementsAre(send(2, input(0)), recv(6, output(6))));
  EXPECT_THAT(programs[0].rounds[2], ElementsAre(send(4, input(0)), recv(4, output(4))));
}

TEST(MixingProgram, IsWhatTheRowsSay) {
  for (const MixingGraph& one : mixing_graphs()) {
    for (const int ranks : {1, 2, 3, 6, 9, 16}) {
      if (!one.check(ranks)) continue;
      const auto programs = mixing_programs(one, ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        for (int round = 0; round < one.rounds(ranks); ++round) {
          std::vector<int> to, from;
          const auto& program = programs[static_cast<std::size_t>(rank)];
          for (const Step& step : program.rounds[static_cast<std::size_t>(round)])
            (step.kind == Step::Kind::send ? to : from).push_back(step.peer);
          std::ranges::sort(to);
          std::ranges::sort(from);
          const MixingRow row = one.row(ranks, round, rank);
          EXPECT_EQ(to, row.to) << one.name << " " << ranks;
          std::vector<int> peers;
          for (const MixingTerm& term : row.from) peers.push_back(term.peer);
          EXPECT_EQ(from, peers) << one.name << " " << ranks;
        }
      }
    }
  }
}

}  // namespace
}  // namespace paceline::collective
