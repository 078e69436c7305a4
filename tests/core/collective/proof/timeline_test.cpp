#include "paceline/core/collective/proof/timeline.h"

#include <algorithm>

#include "tests/core/collective/programs.h"

namespace paceline::collective {
namespace {

using namespace testing;

Timeline timeline_of(const std::vector<Program>& programs, int local_round) {
  auto meeting = meet(programs);
  EXPECT_TRUE(meeting.has_value()) << meeting.error().what;
  return meeting ? timeline(programs, *meeting, local_round) : Timeline{};
}

TEST(Timeline, AMessageMovesWhenBothItsRoundsHaveBegun) {
  const Program busy{.chunks = 1, .rounds = {{send(1, input(0))}, {recv(2, output(0))}}};
  const Program first{.chunks = 1, .rounds = {{recv(0, output(0))}}};
  const Program waits{.chunks = 1, .rounds = {{send(0, input(0))}}};
  const Timeline found = timeline_of({busy, first, waits}, 0);
  EXPECT_EQ(found.begins, (std::vector<std::vector<int>>{{0, 1, 2}, {0, 1}, {0, 2}}));
  EXPECT_EQ(found.end, 2);
}

TEST(Timeline, LocalRoundsTakeWhatIsSaid) {
  const Algorithm direct = built_in(Operation::all_reduce, "direct");
  for (const int ranks : {2, 3, 5, 8}) {
    const auto programs = programs_of(direct, ranks);
    const int local = static_cast<int>(programs[0].rounds.size()) - 2;
    EXPECT_EQ(timeline_of(programs, 0).end, 2) << ranks;
    EXPECT_EQ(timeline_of(programs, 1).end, 2 + local) << ranks;
  }
}

TEST(Timeline, NoRoundEndsBeforeItBegins) {
  for (const Algorithm& algorithm : built_in_algorithms()) {
    const int ranks = algorithm.fits({.ranks = 7}) ? 7 : 8;
    const Timeline found = timeline_of(programs_of(algorithm, ranks), 1);
    for (const auto& begins : found.begins) {
      EXPECT_TRUE(std::ranges::is_sorted(begins)) << algorithm.name;
      EXPECT_LE(begins.back(), found.end) << algorithm.name;
    }
  }
}

TEST(Timeline, DepthIsTheLongestChainOfRoundsWithMessages) {
  // A token from rank to rank: each waits for the one before it, however few rounds each has.
  std::vector<Program> chain = {{.chunks = 1, .rounds = {{send(1, input(0))}}}};
  for (int rank = 1; rank < 4; ++rank) {
    chain.push_back({.chunks = 1, .rounds = {{recv(rank - 1, output(0))}}});
    if (rank < 3) chain.back().rounds.push_back({send(rank + 1, output(0))});
  }
  EXPECT_EQ(timeline_of(chain, 0).end, 3);
  // Rounds without messages do not count.
  chain[1].rounds.insert(chain[1].rounds.begin() + 1, 2, Round{copy(output(0), output(0))});
  EXPECT_EQ(timeline_of(chain, 0).end, 3);
  // A late rank makes its peer wait: rank 0 can send to 1 only when 1 has served 2.
  const std::vector<Program> late = {
      {.chunks = 1, .rounds = {{send(1, input(0))}}},
      {.chunks = 1, .rounds = {{send(2, input(0))}, {recv(0, output(0))}}},
      {.chunks = 1, .rounds = {{recv(1, output(0))}}}};
  EXPECT_EQ(timeline_of(late, 0).end, 2);
}

}  // namespace
}  // namespace paceline::collective
