#include "paceline/core/collective/program/compiled_program.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective {
namespace {

using namespace testing;

TEST(ProgramPlan, NumbersMessagesAlikeOnBothSides) {
  for (const Algorithm& algorithm : built_in_algorithms()) {
    for (const int ranks : rank_counts(algorithm, 9)) {
      std::vector<std::shared_ptr<const ProgramPlan>> plans;
      for (const Program& program : programs_of(algorithm, ranks))
        plans.push_back(make_plan(program, ranks));
      for (int from = 0; from < ranks; ++from) {
        for (int to = 0; to < ranks; ++to) {
          const auto& sender = *plans[static_cast<std::size_t>(from)];
          const auto& receiver = *plans[static_cast<std::size_t>(to)];
          EXPECT_EQ(static_cast<std::size_t>(sender.sends[static_cast<std::size_t>(to)]),
                    receiver.receives[static_cast<std::size_t>(from)].size())
              << algorithm.name << ", " << ranks << " ranks";
        }
      }
    }
  }
}

TEST(ProgramPlan, KnowsWhereEachMessageIsTaken) {
  for (const Program& program : programs_of(built_in(Operation::all_reduce, "direct"), 5)) {
    const auto plan = make_plan(program, 5);
    for (std::size_t peer = 0; peer < 5; ++peer) {
      for (std::size_t number = 0; number < plan->receives[peer].size(); ++number) {
        const auto [round, index] = plan->receives[peer][number];
        const Action& action =
            plan->rounds[static_cast<std::size_t>(round)][static_cast<std::size_t>(index)];
        EXPECT_EQ(action.step.peer, static_cast<int>(peer));
        EXPECT_EQ(action.number, static_cast<int>(number));
      }
    }
  }
}

// A call of all_to_all may not cost every rank a chunk for each pair of ranks.
TEST(ProgramPlan, OfTouchedChunksIsNoLargerThanTheProgramsStepsAndNamesTheSameChunks) {
  for (const Algorithm& algorithm : built_in_algorithms()) {
    if (algorithm.operation != Operation::all_to_all) continue;
    for (const int ranks : {1, 2, 5, 32, 128}) {
      const Program program = algorithm.build({.ranks = ranks, .rank = ranks / 2});
      const auto all = make_plan(program, ranks);
      const auto touched = make_plan_of_touched_chunks(program, ranks);
      const auto name = fmt::format("{}, {} ranks", algorithm.name, ranks);
      const auto same = [&](const Slot& slot, const Slot& expected) {
        Slot named = slot;
        named.chunk = touched->program_chunks.at(static_cast<std::size_t>(slot.chunk));
        return named == expected;
      };
      std::size_t steps = 0;
      ASSERT_EQ(touched->rounds.size(), all->rounds.size()) << name;
      for (std::size_t r = 0; r < all->rounds.size(); ++r) {
        ASSERT_EQ(touched->rounds[r].size(), all->rounds[r].size()) << name;
        for (std::size_t i = 0; i < all->rounds[r].size(); ++i, ++steps) {
          const Step &own = touched->rounds[r][i].step, &expected = all->rounds[r][i].step;
          EXPECT_EQ(own.kind, expected.kind) << name;
          EXPECT_TRUE(same(own.source, expected.source) && same(own.target, expected.target))
              << name << ", round " << r << ", step " << i;
        }
      }
      EXPECT_EQ(touched->chunks, static_cast<int>(touched->program_chunks.size())) << name;
      // One for each step, and the one that steps leave in the slots that they do not use.
      EXPECT_LE(touched->program_chunks.size(), steps + 1) << name;
    }
  }
}

TEST(ProgramPlan, AViewEndsWithTheLastReductionThatReadsIt) {
  const Slot view = scratch(0, 0), sum = output(0);
  const Program program{.chunks = 1,
                        .scratch_places = 1,
                        .rounds = {{recv(1, view)},
                                   {reduce(input(0), view, sum)},
                                   {reduce(sum, view, sum)},
                                   {send(1, sum)}}};
  EXPECT_EQ(make_plan(program, 2)->rounds[0][0].view_until, 2);
}

TEST(ProgramPlan, WhatIsSentOrCopiedOnIsNoView) {
  const Slot place = scratch(0, 0);
  for (const Step& reader : {send(1, place), store(1, place, output(0)), copy(place, output(0))}) {
    const Program program{.chunks = 1, .scratch_places = 1, .rounds = {{recv(1, place)}, {reader}}};
    EXPECT_EQ(make_plan(program, 2)->rounds[0][0].view_until, -1) << to_string(reader);
  }
  const Program into_output{.chunks = 1, .rounds = {{recv(1, output(0))}}};
  EXPECT_EQ(make_plan(into_output, 2)->rounds[0][0].view_until, -1);
}

TEST(ProgramPlan, AWriteEndsAView) {
  const Slot place = scratch(0, 0);
  const Program program{
      .chunks = 1,
      .scratch_places = 1,
      .rounds = {{recv(1, place)}, {reduce(input(0), place, place)}, {send(1, place)}}};
  EXPECT_EQ(make_plan(program, 2)->rounds[0][0].view_until, 1)
      << "what is sent is the sum, which is our own";
}

}  // namespace
}  // namespace paceline::collective
