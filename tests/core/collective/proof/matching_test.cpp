#include "paceline/core/collective/proof/matching.h"

#include <gtest/gtest.h>

#include "paceline/core/collective/program/cells.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective {
namespace {

using namespace testing;

TEST(Rendezvous, EverySendMeetsOneReceiveAndTheOtherWayRound) {
  for (const Algorithm& algorithm : built_in_algorithms()) {
    const int ranks = algorithm.fits({.ranks = 7}) ? 7 : 8;
    const auto programs = programs_of(algorithm, ranks);
    auto meeting = meet(programs);
    ASSERT_TRUE(meeting.has_value()) << meeting.error().what;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto& rounds = programs[static_cast<std::size_t>(rank)].rounds;
      for (int r = 0; r < static_cast<int>(rounds.size()); ++r) {
        for (int i = 0; i < static_cast<int>(rounds[static_cast<std::size_t>(r)].size()); ++i) {
          const StepAt at{rank, r, i}, partner = meeting->partner(at);
          const Step& step = step_at(programs, at);
          if (step.peer < 0) {
            EXPECT_EQ(partner.rank, -1);
            continue;
          }
          EXPECT_EQ(partner.rank, step.peer);
          EXPECT_EQ(meeting->partner(partner), at);
          EXPECT_EQ(is_send(step), is_recv(step_at(programs, partner)));
        }
      }
    }
  }
}

TEST(Rendezvous, KeepsTheOrderOfMessagesBetweenTwoRanks) {
  const std::vector<Program> programs = {
      {.chunks = 2, .rounds = {{send(1, input(0)), send(1, input(1))}}},
      {.chunks = 2, .rounds = {{recv(0, output(0))}, {recv(0, output(1))}}}};
  auto meeting = meet(programs);
  ASSERT_TRUE(meeting.has_value());
  EXPECT_EQ(meeting->partner({0, 0, 0}), (StepAt{1, 0, 0}));
  EXPECT_EQ(meeting->partner({0, 0, 1}), (StepAt{1, 1, 0}));
}

TEST(Rendezvous, EndsEachRoundOnceAndARanksRoundsInOrder) {
  const auto programs = programs_of(built_in(Operation::all_reduce, "binomial"), 13);
  auto meeting = meet(programs);
  ASSERT_TRUE(meeting.has_value());
  std::vector<int> ended(13, 0);
  for (const RoundAt& end : meeting->ends)
    EXPECT_EQ(end.round, ended[static_cast<std::size_t>(end.rank)]++);
  for (std::size_t rank = 0; rank < 13; ++rank) {
    EXPECT_EQ(ended[rank], static_cast<int>(programs[rank].rounds.size()));
  }
}

TEST(Rendezvous, ACycleOfSendsNamesAllWhoAreStuck) {
  std::vector<Program> programs;
  for (int rank = 0; rank < 3; ++rank) {
    programs.push_back(
        {.chunks = 1,
         .rounds = {{send((rank + 1) % 3, input(0))}, {recv((rank + 2) % 3, output(0))}}});
  }
  programs.push_back({.chunks = 1});
  const auto meeting = meet(programs);
  ASSERT_FALSE(meeting.has_value());
  EXPECT_EQ(meeting.error().ranks, (std::vector<int>{0, 1, 2}));
}

TEST(Rendezvous, NumbersStepsThroughAllPrograms) {
  const std::vector<Program> programs = {
      {.chunks = 1, .rounds = {{}, {copy(input(0), output(0))}}},
      {.chunks = 1, .rounds = {{copy(input(0), output(0)), copy(input(0), output(0))}}}};
  const StepNumbers numbers(programs);
  EXPECT_EQ(numbers.count(), 3u);
  EXPECT_EQ(numbers.of({0, 1, 0}), 0u);
  EXPECT_EQ(numbers.of({1, 0, 0}), 1u);
  EXPECT_EQ(numbers.of({1, 0, 1}), 2u);
}

}  // namespace
}  // namespace paceline::collective
