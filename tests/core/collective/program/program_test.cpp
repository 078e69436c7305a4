#include "paceline/core/collective/program/program.h"

#include <gtest/gtest.h>

namespace paceline::collective {
namespace {

TEST(Program, PrintsASlotAsItIsWritten) {
  EXPECT_EQ(to_string(input(0)), "input(0)");
  EXPECT_EQ(to_string(output(3)), "output(3)");
  EXPECT_EQ(to_string(scratch(1, 3)), "scratch(1, 3)");
}

TEST(Program, PrintsWhatEachKindOfStepDoes) {
  EXPECT_EQ(to_string(send(1, input(0))), "send to 1: input(0)");
  EXPECT_EQ(to_string(store(1, output(0), output(2))), "store to 1: output(0) into output(2)");
  EXPECT_EQ(to_string(recv(2, scratch(2, 0))), "recv from 2: scratch(2, 0)");
  EXPECT_EQ(to_string(copy(input(4), output(4))), "copy: output(4) = input(4)");
  EXPECT_EQ(to_string(reduce(input(0), scratch(1, 0), output(0))),
            "reduce: output(0) = input(0) OP scratch(1, 0)");
}

TEST(Program, PrintsTheOrderOfTheOperands) {
  EXPECT_EQ(to_string(recv_reduce(2, input(3), output(3), false)),
            "recv_reduce from 2: output(3) = received OP input(3)");
  EXPECT_EQ(to_string(recv_reduce(2, input(3), output(3), true)),
            "recv_reduce from 2: output(3) = input(3) OP received");
}

TEST(Program, MarksTheStepThatCompletes) {
  const Step step = completing(copy(input(0), output(0)));
  EXPECT_TRUE(step.completes);
  EXPECT_FALSE(copy(input(0), output(0)).completes);
  EXPECT_EQ(to_string(step), "copy: output(0) = input(0), complete");
}

TEST(Program, PrintsALineForEachStepUnderItsRound) {
  const Program program{.chunks = 1,
                        .rounds = {{send(1, input(0)), recv(1, scratch(0, 0))},
                                   {reduce(input(0), scratch(0, 0), output(0))}}};
  EXPECT_EQ(to_string(program),
            "round 0: send to 1: input(0)\n"
            "         recv from 1: scratch(0, 0)\n"
            "round 1: reduce: output(0) = input(0) OP scratch(0, 0)\n");
  EXPECT_EQ(to_string(Program{}), "");
}

TEST(Program, IsAValueThatComparesByWhatItDoes) {
  const Program one{.chunks = 1, .rounds = {{send(1, input(0))}}};
  Program other = one;
  EXPECT_EQ(one, other);
  other.rounds[0][0].peer = 2;
  EXPECT_NE(one, other);
}

TEST(Program, NamesThePeerOfMessagesAndNobodyElse) {
  EXPECT_EQ(send(3, input(0)).peer, 3);
  EXPECT_EQ(store(3, input(0), output(0)).peer, 3);
  EXPECT_EQ(recv(3, output(0)).peer, 3);
  EXPECT_EQ(recv_reduce(3, input(0), output(0), true).peer, 3);
  EXPECT_EQ(copy(input(0), output(0)).peer, -1);
  EXPECT_EQ(reduce(input(0), output(0), output(0)).peer, -1);
}

TEST(Shape, IsValidWhenRankAndRootExist) {
  EXPECT_TRUE(is_valid({}));
  EXPECT_TRUE(is_valid({.ranks = 3, .rank = 2, .root = 2}));
  EXPECT_FALSE(is_valid({.ranks = 0}));
  EXPECT_FALSE(is_valid({.ranks = 3, .rank = 3}));
  EXPECT_FALSE(is_valid({.ranks = 3, .rank = -1}));
  EXPECT_FALSE(is_valid({.ranks = 3, .root = 3}));
  EXPECT_FALSE(is_valid({.ranks = 3, .root = -1}));
}

TEST(Shape, IsToldAsTheCommandTakesIt) {
  EXPECT_EQ(to_string(Shape{.ranks = 4, .root = 3}), "4 ranks, root 3");
  EXPECT_EQ(
      to_string(Shape{.ranks = 4, .radix = 3, .groups = {{0, 1, 3}, {2}}, .dimensions = {2, 2}}),
      "4 ranks, root 0, radix 3, groups 0,1,3/2, dimensions 2x2");
}

TEST(Counters, AreToldInTheirUnits) {
  EXPECT_EQ(to_string(Counters{.depth = 1, .messages = 12, .chunks = 0}),
            "1 round, 12 messages, 0 chunks from the busiest rank");
}

TEST(Program, StepsOfARoundToOnePeerAreOneMessage) {
  EXPECT_EQ(
      messages_of({send(2, input(0)), recv(2, output(0)), send(1, input(1)),
                   store(2, input(3), output(3)), copy(input(2), output(2)), send(1, input(4))}),
      (std::vector{0, -1, 2, 0, -1, 2}));
  EXPECT_EQ(messages_of({}), std::vector<int>{});
}

}  // namespace
}  // namespace paceline::collective
