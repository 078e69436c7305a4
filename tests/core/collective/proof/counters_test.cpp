#include "paceline/core/collective/proof/counters.h"

#include "paceline/core/collective/program/composition.h"
#include "tests/core/collective/programs.h"

namespace paceline::collective {
namespace {

using namespace testing;

Counters count_of(const std::vector<Program>& programs) {
  auto meeting = meet(programs);
  EXPECT_TRUE(meeting.has_value()) << meeting.error().what;
  return meeting ? count(programs, *meeting) : Counters{};
}

// Rank 0 tells rank 1, which tells rank 2, ..
std::vector<Program> relay(int ranks) {
  std::vector<Program> programs;
  for (int rank = 0; rank < ranks; ++rank) {
    Program program{.chunks = 1};
    if (rank > 0) program.rounds.push_back({recv(rank - 1, output(0))});
    if (rank + 1 < ranks) program.rounds.push_back({send(rank + 1, output(0))});
    programs.push_back(program);
  }
  return programs;
}

TEST(Counters, AChainIsAsDeepAsItHasLinks) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    const Counters expected{
        .depth = ranks - 1, .messages = ranks - 1, .chunks = ranks == 1 ? 0 : 1};
    EXPECT_EQ(count_of(relay(ranks)), expected) << ranks;
  }
}

TEST(Counters, RoundsWithoutMessagesAddNothing) {
  std::vector<Program> programs = relay(4);
  const Counters before = count_of(programs);
  for (Program& program : programs) {
    program.rounds.insert(program.rounds.begin(), {{}, {copy(input(0), output(0))}});
    program.rounds.insert(program.rounds.end() - 1, Round{});
  }
  EXPECT_EQ(count_of(programs), before);
}

TEST(Counters, WhatOneRankSendsAnotherInOneRoundIsOneMessage) {
  const Program sender{.chunks = 3,
                       .rounds = {{send(1, input(0)), send(2, input(0)), send(1, input(2))},
                                  {store(1, input(1), output(1))}}};
  const Program first{.chunks = 3,
                      .rounds = {{recv(0, output(0)), recv(0, output(2))}, {recv(0, output(1))}}};
  const Program second{.chunks = 3, .rounds = {{recv(0, output(0))}}};
  EXPECT_EQ(count_of({sender, first, second}), (Counters{.depth = 2, .messages = 3, .chunks = 4}));
}

TEST(Counters, OneAfterTheOtherAddsUpAndSideBySideIsAsDeepAsTheDeepest) {
  const Algorithm ring = built_in(Operation::all_reduce, "ring");
  std::vector<Program> one, twice, beside;
  for (const Program& program : programs_of(ring, 5)) {
    one.push_back(program);
    twice.push_back(in_sequence({program, program}));
    const CompositionPart low{
        .ranks = {0, 1, 2, 3, 4}, .chunks = {{0}, {1}, {2}, {3}, {4}}, .of_chunks = 10};
    const CompositionPart high{
        .ranks = {0, 1, 2, 3, 4}, .chunks = {{5}, {6}, {7}, {8}, {9}}, .of_chunks = 10};
    beside.push_back(side_by_side({on(low, program), on(high, program)}));
  }
  const Counters once = count_of(one);
  EXPECT_EQ(count_of(twice), (Counters{.depth = 2 * once.depth,
                                       .messages = 2 * once.messages,
                                       .chunks = 2 * once.chunks}));
  EXPECT_EQ(count_of(beside),
            (Counters{.depth = once.depth, .messages = once.messages, .chunks = 2 * once.chunks}));
}

TEST(Counters, AreHeldAgainstWhatTheAlgorithmStates) {
  Algorithm boastful = built_in(Operation::all_reduce, "ring");
  EXPECT_EQ(fault_of(boastful, 4), "");
  boastful.closed_form = [](const Shape&) {
    return Counters{.depth = 1, .messages = 2, .chunks = 3};
  };
  EXPECT_EQ(fault_of(boastful, 4),
            "all_reduce ring, 4 ranks, root 0: takes 6 rounds, 24 messages, 6 chunks from the "
            "busiest rank, but the algorithm states 1 round, 2 messages, 3 chunks from the busiest "
            "rank");
}

}  // namespace
}  // namespace paceline::collective
