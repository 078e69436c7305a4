// Every read between synchronize() and the caller's own step has the values of its place in the
// program, whatever ranks own and however many reads each makes.
#include "paceline/torch/shard/own_step_window.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "tests/support/seed.h"

namespace paceline::shard {
namespace {

using Use = OwnStepWindow::Use;

// A rank's program from the end of a step to the next backward pass: reads, and steps of optimizers
// that each write some of its leaves.
struct Rank {
  struct Action {
    int optimizer = -1;  // that steps; -1: this is a read
    Use use = Use::evaluation;
  };
  std::vector<Action> program;
  std::vector<std::vector<std::size_t>> leaves_of;  // by optimizer
  OwnStepWindow window = {};
  std::size_t next = 0;
  std::vector<int> pieces = {};  // by rank: how many of its leaves were new when it was gathered
  std::vector<int> seen = {};    // by read: how many new leaves of all ranks it saw
  int own_new = 0;
};

// Runs all ranks until they must read, lets them tell a round, and so on. Returns whether a read
// was refused.
bool run(std::vector<Rank>& ranks) {
  for (Rank& rank : ranks) {
    std::vector<bool> has_gradient;
    for (const auto& leaves : rank.leaves_of)
      has_gradient.resize(has_gradient.size() + leaves.size(), true);
    rank.window.open(has_gradient);
    rank.pieces.assign(ranks.size(), 0);
  }
  const auto reads = [](const Rank& rank) {
    return rank.next < rank.program.size() && rank.program[rank.next].optimizer < 0;
  };
  for (int rounds = 0; rounds < 1000; ++rounds) {
    for (Rank& rank : ranks) {
      while (rank.next < rank.program.size() && !reads(rank)) {
        const int optimizer = rank.program[rank.next++].optimizer;
        for (const std::size_t leaf : rank.leaves_of[static_cast<std::size_t>(optimizer)]) {
          rank.window.written(leaf);
          ++rank.own_new;
        }
      }
    }
    bool any = false;
    OwnStepWindow::Word all = 0;
    for (Rank& rank : ranks) {
      if (!rank.window.is_open()) continue;
      EXPECT_TRUE(reads(rank)) << "a rank ended while others wait for its word";
      all |= rank.window.word(rank.program[rank.next].use);
      any = true;
    }
    if (!any) return false;
    std::vector<int> now;
    for (const Rank& rank : ranks) now.push_back(rank.own_new);
    int gathering = 0;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      Rank& rank = ranks[r];
      const auto answer = rank.window.hear(all, rank.program[rank.next].use);
      if (answer.is_refused) return true;
      gathering += answer.gathers ? 1 : 0;
      if (answer.gathers) rank.pieces = now;
      rank.pieces[r] = rank.own_new;
      if (answer.is_repeated) continue;
      int sum = 0;
      for (const int piece : rank.pieces) sum += piece;
      rank.seen.push_back(sum);
      ++rank.next;
    }
    EXPECT_TRUE(gathering == 0 || gathering == static_cast<int>(ranks.size()))
        << "all ranks gather, or none does";
  }
  ADD_FAILURE() << "the window never closes";
  return false;
}

std::vector<Rank> same_program(const std::vector<Rank::Action>& program,
                               std::vector<std::vector<std::vector<std::size_t>>> leaves) {
  std::vector<Rank> ranks;
  for (auto& of_rank : leaves) ranks.push_back({.program = program, .leaves_of = of_rank});
  return ranks;
}

TEST(OwnStepWindow, ReadsBeforeTheStepSeeOldValuesAndReadsAfterItSeeNewOnes) {
  const std::vector<Rank::Action> program = {{.use = Use::evaluation}, {.use = Use::forward},
                                             {.optimizer = 0},         {.use = Use::evaluation},
                                             {.use = Use::forward},    {.use = Use::end}};
  for (const bool has_blind : {false, true}) {
    auto ranks = same_program(program, {{{0, 1, 2}}, {{0}}});
    // A rank without leaves of gradients reads before the step in evaluations alone: in a forward
    // pass it cannot tell that its step is still to come.
    if (has_blind) {
      ranks.push_back({.program = {{.use = Use::evaluation},
                                   {.optimizer = 0},
                                   {.use = Use::evaluation},
                                   {.use = Use::forward},
                                   {.use = Use::end}},
                       .leaves_of = {{}}});
    }
    ASSERT_FALSE(run(ranks));
    EXPECT_EQ(ranks[0].seen.front(), 0);
    for (const Rank& rank : ranks) {
      EXPECT_EQ(rank.seen.front(), 0);
      EXPECT_FALSE(rank.window.is_open());
    }
    EXPECT_EQ(ranks[0].seen[1], 0);
    EXPECT_EQ(ranks[0].seen[2], 4);
    EXPECT_EQ(ranks[1].seen[2], 4);
  }
}

TEST(OwnStepWindow, ReadsBetweenTwoOptimizersSeeTheFirstOnesValues) {
  const std::vector<Rank::Action> program = {{.optimizer = 0},
                                             {.use = Use::evaluation},
                                             {.optimizer = 1},
                                             {.use = Use::evaluation},
                                             {.use = Use::end}};
  auto ranks = same_program(program, {{{0, 1}, {2}}, {{0}, {1, 2}}});
  ASSERT_FALSE(run(ranks));
  for (const Rank& rank : ranks) EXPECT_EQ(rank.seen.front(), 3);
  for (const Rank& rank : ranks) EXPECT_EQ(rank.seen[1], 6);
}

// Rank 0 prints a norm before its step, which the other ranks do not; and evaluates alone.
TEST(OwnStepWindow, ARankMayReadAloneBeforeItsStepOrAfterIt) {
  std::vector<Rank> ranks;
  ranks.push_back({.program = {{.use = Use::forward},
                               {.use = Use::evaluation},
                               {.optimizer = 0},
                               {.use = Use::evaluation},
                               {.use = Use::evaluation},
                               {.use = Use::end}},
                   .leaves_of = {{0, 1}}});
  ranks.push_back({.program = {{.optimizer = 0}, {.use = Use::forward}}, .leaves_of = {{0}}});
  ASSERT_FALSE(run(ranks));
  EXPECT_EQ(ranks[0].seen, (std::vector<int>{0, 0, 3}));
  EXPECT_EQ(ranks[1].seen, (std::vector<int>{3}));
}

TEST(OwnStepWindow, ReadsOnBothSidesOfTheStepAtOnceAreRefused) {
  std::vector<Rank> ranks;
  ranks.push_back({.program = {{.use = Use::evaluation}, {.optimizer = 0}, {.use = Use::end}},
                   .leaves_of = {{0}}});
  ranks.push_back({.program = {{.optimizer = 0}, {.use = Use::evaluation}, {.use = Use::end}},
                   .leaves_of = {{0}}});
  EXPECT_TRUE(run(ranks));
}

TEST(OwnStepWindow, WithoutAnyStepNothingIsGathered) {
  auto ranks = same_program({{.use = Use::evaluation}, {.use = Use::end}}, {{{0}}, {{0}}, {{}}});
  ASSERT_FALSE(run(ranks));
  for (const Rank& rank : ranks) EXPECT_EQ(rank.seen, (std::vector<int>{0, 0}));
}

// All ranks run one program of steps and evaluations drawn by a seed, and each has leaves of every
// optimizer, as units that are cut among all ranks give it.
TEST(OwnStepWindow, AProgramThatAllRanksRunSeesTheValuesOfItsPlaces) {
  std::mt19937_64 random(test::seed(41));
  const auto draw = [&](int from, int to) {
    return static_cast<int>(from +
                            static_cast<int>(random() % static_cast<std::uint64_t>(to - from + 1)));
  };
  for (int turn = 0; turn < 500; ++turn) {
    const int optimizers = draw(1, 3), count = draw(1, 4);
    std::vector<Rank::Action> program;
    std::vector<int> steps_before;  // by read: of optimizers
    for (int o = 0; o <= optimizers; ++o) {
      for (int reads = draw(0, 3); reads > 0; --reads) {
        program.push_back({.use = Use::evaluation});
        steps_before.push_back(o);
      }
      if (o < optimizers) program.push_back({.optimizer = o});
    }
    program.push_back({.use = draw(0, 1) == 0 ? Use::forward : Use::end});
    steps_before.push_back(optimizers);
    std::vector<std::vector<std::vector<std::size_t>>> leaves(static_cast<std::size_t>(count));
    std::vector<int> total(static_cast<std::size_t>(optimizers) + 1, 0);
    for (auto& of_rank : leaves) {
      std::size_t leaf = 0;
      for (int o = 0; o < optimizers; ++o) {
        of_rank.emplace_back();
        for (int k = draw(1, 3); k > 0; --k) of_rank.back().push_back(leaf++);
        for (std::size_t after = static_cast<std::size_t>(o) + 1; after < total.size(); ++after)
          total[after] += static_cast<int>(of_rank.back().size());
      }
    }
    auto ranks = same_program(program, leaves);
    ASSERT_FALSE(run(ranks)) << turn;
    for (const Rank& rank : ranks) {
      for (std::size_t read = 0; read < rank.seen.size(); ++read)
        ASSERT_EQ(rank.seen[read], total[static_cast<std::size_t>(steps_before[read])]) << turn;
    }
  }
}

}  // namespace
}  // namespace paceline::shard
