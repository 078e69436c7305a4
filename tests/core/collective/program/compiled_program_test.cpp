#include "paceline/core/collective/program/compiled_program.h"

#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective {
namespace {

using namespace testing;

TEST(Plan, NumbersMessagesAlikeOnBothSides) {
  for (const Algorithm& algorithm : built_in_algorithms()) {
    for (const int ranks : rank_counts(algorithm, 9)) {
      std::vector<std::shared_ptr<const Plan>> plans;
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

TEST(Plan, KnowsWhereEachMessageIsTaken) {
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

TEST(Plan, AViewEndsWithTheLastReductionThatReadsIt) {
  const Slot view = scratch(0, 0), sum = output(0);
  const Program program{.chunks = 1,
                        .scratch_places = 1,
                        .rounds = {{recv(1, view)},
                                   {reduce(input(0), view, sum)},
                                   {reduce(sum, view, sum)},
                                   {send(1, sum)}}};
  EXPECT_EQ(make_plan(program, 2)->rounds[0][0].view_until, 2);
}

TEST(Plan, WhatIsSentOrCopiedOnIsNoView) {
  const Slot place = scratch(0, 0);
  for (const Step& reader : {send(1, place), store(1, place, output(0)), copy(place, output(0))}) {
    const Program program{.chunks = 1, .scratch_places = 1, .rounds = {{recv(1, place)}, {reader}}};
    EXPECT_EQ(make_plan(program, 2)->rounds[0][0].view_until, -1) << to_string(reader);
  }
  const Program into_output{.chunks = 1, .rounds = {{recv(1, output(0))}}};
  EXPECT_EQ(make_plan(into_output, 2)->rounds[0][0].view_until, -1);
}

TEST(Plan, AWriteEndsAView) {
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
