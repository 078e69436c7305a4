// Also covers paceline/core/collective/proof/symbolic_run.h, which verify() is made of.
#include "paceline/core/collective/proof/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Right in place too: no sum is written where the other rank may still read.
std::vector<Program> careful(std::vector<Program> programs) {
  for (Program& program : programs) {
    program.scratch_places = 2;
    program.rounds[1][0].target = scratch(1, 0);
    program.rounds.push_back({copy(scratch(1, 0), output(0))});
  }
  return programs;
}

TEST(Verify, RefusesSumsOverWhatTheOtherRankStillReads) {
  EXPECT_THAT(fault_of(swap_and_sum(), swap_and_sum_programs()),
              AllOf(HasSubstr("in place, rank"), HasSubstr("still reads as a view")));
}

TEST(Verify, ProvesEachRankSummingForItselfByTheSameTree) {
  const auto proof =
      verify(with_programs(swap_and_sum(), careful(swap_and_sum_programs())), {.ranks = 2});
  ASSERT_TRUE(proof.has_value()) << proof.error().what;
  EXPECT_EQ(proof.value().tree, "(0+1)");
  EXPECT_EQ(proof.value().rounds, 3);
  EXPECT_EQ(proof.value().messages, 2);
  EXPECT_EQ(proof.value().sent_chunks, (std::vector<long>{1, 1}));
}

TEST(Verify, TellsTheTreeOfChunk0) {
  EXPECT_EQ(proof_of(built_in(Operation::all_reduce, "direct"), 5).tree, "(((0+1)+(2+3))+4)");
  EXPECT_EQ(proof_of(built_in(Operation::all_reduce, "ring"), 4).tree, "(((0+1)+2)+3)");
  EXPECT_EQ(proof_of(built_in(Operation::reduce_scatter, "ring"), 4).tree, "(((1+2)+3)+0)");
  EXPECT_EQ(proof_of(built_in(Operation::all_reduce, "direct"), 1).tree, "0");
  EXPECT_EQ(proof_of(built_in(Operation::broadcast, "direct"), 4).tree, "");
}

TEST(Verify, NamesOperationAlgorithmRankRoundAndStepAtFault) {
  auto programs = programs_of(built_in(Operation::all_reduce, "ring"), 4);
  programs[2].rounds[1][1].target = input(0);
  const auto proof =
      verify(with_programs(built_in(Operation::all_reduce, "ring"), programs), {.ranks = 4});
  ASSERT_FALSE(proof.has_value());
  EXPECT_EQ(proof.error().fault, Fault::misuse);
  EXPECT_EQ(proof.error().ranks, std::vector<int>{2});
  EXPECT_THAT(proof.error().what, AllOf(HasSubstr("all_reduce ring, 4 ranks"),
                                        HasSubstr("rank 2, round 1, step 1 (recv_reduce from 1")));
}

TEST(Verify, RefusesAShapeThatTheAlgorithmDoesNotFit) {
  EXPECT_THAT(fault_of(built_in(Operation::broadcast, "direct"), 4, /*root=*/4),
              HasSubstr("does not fit"));
  EXPECT_THAT(fault_of(built_in(Operation::broadcast, "direct"), 0),
              HasSubstr("at least one rank"));
}

TEST(Verify, RefusesOperationsWithoutPrograms) {
  Algorithm sending = built_in(Operation::all_reduce, "ring");
  sending.operation = Operation::send;
  EXPECT_THAT(fault_of(sending, 2), HasSubstr("no programs"));
}

// --- what must meet ---

TEST(Verify, RefusesADeadlockAndTellsWhoWaitsForWhom) {
  // Both send first, so neither is ready to receive.
  auto programs = swap_and_sum_programs();
  for (Program& program : programs) {
    const Round both = program.rounds[0];
    program.rounds = {{both[0]}, {both[1]}, program.rounds[1]};
  }
  EXPECT_THAT(fault_of(swap_and_sum(), programs),
              AllOf(HasSubstr("nothing can move"),
                    HasSubstr("rank 0, round 0, step 0 (send to 1: input(0)) waits for rank 1"),
                    HasSubstr("rank 1, round 0, step 0 (send to 0: input(0)) waits for rank 0, "
                              "which is in round 0")));
}

TEST(Verify, RefusesAMissingStep) {
  auto programs = programs_of(built_in(Operation::all_reduce, "binomial"), 4);
  programs[3].rounds.pop_back();
  EXPECT_THAT(
      fault_of(built_in(Operation::all_reduce, "binomial"), programs),
      AllOf(HasSubstr(
          "rank 2, round 3, step 0 (send to 3: output(0)) waits for rank 3, which has ended")));
}

TEST(Verify, RefusesAStepTooMany) {
  auto programs = programs_of(built_in(Operation::all_reduce, "binomial"), 4);
  programs[1].rounds.push_back({send(0, output(0))});
  EXPECT_THAT(fault_of(built_in(Operation::all_reduce, "binomial"), programs),
              HasSubstr("waits for rank 0, which has ended"));
}

TEST(Verify, RefusesSwappedPeers) {
  auto programs = programs_of(built_in(Operation::all_reduce, "direct"), 4);
  std::swap(programs[1].rounds[0][0].peer, programs[1].rounds[0][2].peer);
  EXPECT_THAT(fault_of(built_in(Operation::all_reduce, "direct"), programs),
              HasSubstr("the chunks differ"));
}

TEST(Verify, RefusesARingThatIsOffByOne) {
  auto programs = programs_of(built_in(Operation::all_reduce, "ring"), 4);
  for (Program& program : programs) program.rounds.erase(program.rounds.begin() + 2);
  EXPECT_NE(fault_of(built_in(Operation::all_reduce, "ring"), programs), "");
}

TEST(Verify, LetsAFastRankRunAheadOfItsMessages) {
  // Rank 1 takes part late: rank 0's first round ends only then, and messages between two ranks
  // keep their order.
  const Algorithm algorithm{
      .operation = Operation::all_gather, .name = "relay", .has_balanced_tree = for_any_count};
  const std::vector<Program> programs = {
      {.chunks = 2,
       .rounds = {{send(1, input(0)), copy(input(0), output(0))}, {recv(1, output(1))}}},
      {.chunks = 2,
       .rounds = {{copy(input(1), output(1))}, {}, {recv(0, output(0))}, {send(0, output(1))}}}};
  EXPECT_EQ(fault_of(algorithm, programs), "");
}

// --- what must come out ---

TEST(Verify, RefusesReadingWhatNothingHasWritten) {
  auto programs = swap_and_sum_programs();
  programs[0].rounds[0][0].source = output(0);
  EXPECT_THAT(fault_of(swap_and_sum(), programs),
              HasSubstr("reads output(0), which nothing has written"));
}

TEST(Verify, RefusesReadingAnotherChunkThanLiesInScratch) {
  auto programs = programs_of(built_in(Operation::reduce_scatter, "direct"), 3);
  programs[0].rounds[1] = {copy(scratch(1, 1), scratch(2, 1))};
  EXPECT_THAT(fault_of(built_in(Operation::reduce_scatter, "direct"), programs),
              HasSubstr("where chunk 0 lies"));
}

TEST(Verify, RefusesAContributionCountedTwice) {
  auto programs = programs_of(built_in(Operation::all_reduce, "direct"), 4);
  programs[0].rounds[1][1].operand = scratch(2, 0);
  EXPECT_THAT(fault_of(built_in(Operation::all_reduce, "direct"), programs),
              AllOf(HasSubstr("rank 0, round 1, step 1"), HasSubstr("counts rank 2 twice")));
}

TEST(Verify, RefusesAContributionLeftOut) {
  auto programs = swap_and_sum_programs();
  programs[1].rounds[1] = {copy(input(0), output(0))};
  EXPECT_THAT(fault_of(swap_and_sum(), programs),
              HasSubstr("rank 1 ends with output(0) holding only 1"));
}

TEST(Verify, RefusesAnOutputThatIsNotWritten) {
  auto programs = programs_of(built_in(Operation::broadcast, "direct"), 3);
  programs[0].rounds[0].pop_back();
  EXPECT_THAT(fault_of(built_in(Operation::broadcast, "direct"), programs),
              HasSubstr("rank 0 ends with output(0) not written"));
}

TEST(Verify, RefusesRanksThatSumByDifferentTrees) {
  auto programs = swap_and_sum_programs();
  std::swap(programs[1].rounds[1][0].source, programs[1].rounds[1][0].operand);
  Algorithm promises_nothing = swap_and_sum();
  promises_nothing.has_balanced_tree = for_one_rank;
  promises_nothing.determinism = DeterminismClass::d2;
  EXPECT_THAT(fault_of(promises_nothing, programs),
              HasSubstr("summed as (1+0), and elsewhere as (0+1)"));
}

TEST(Verify, RefusesAnotherTreeThanPromised) {
  auto programs = swap_and_sum_programs();
  for (Program& program : programs)
    std::swap(program.rounds[1][0].source, program.rounds[1][0].operand);
  EXPECT_THAT(fault_of(swap_and_sum(), careful(programs)),
              HasSubstr("promises the balanced tree (0+1)"));

  Algorithm promises_less = swap_and_sum();
  promises_less.has_balanced_tree = for_one_rank;
  EXPECT_FALSE(proof_of(with_programs(promises_less, careful(programs)), 2).balanced_tree);
}

TEST(Verify, RefusesClassD3WhereTheTreeDependsOnTheChunk) {
  Algorithm ring = built_in(Operation::all_reduce, "ring");
  ring.determinism = DeterminismClass::d3;
  EXPECT_THAT(fault_of(ring, 3), HasSubstr("class d2, not d3"));
}

TEST(Verify, RefusesAnInputThatInPlaceIsOverwrittenRoundsBeforeItIsRead) {
  auto programs = swap_and_sum_programs();
  for (Program& program : programs) {
    program.scratch_places = 2;
    const Step sum = program.rounds[1][0];
    program.rounds[1] = {copy(scratch(0, 0), output(0))};
    program.rounds.push_back({sum});
  }
  EXPECT_THAT(fault_of(swap_and_sum(), programs),
              AllOf(HasSubstr("in place, "), HasSubstr("twice")));
}

// --- `completes` ---

TEST(Verify, RefusesCompletesOnAPartialSum) {
  auto programs = programs_of(built_in(Operation::all_reduce, "ring"), 4);
  programs[1].rounds[0][1].completes = true;
  EXPECT_THAT(fault_of(built_in(Operation::all_reduce, "ring"), programs),
              HasSubstr("is marked complete, but holds only (0+1)"));
}

TEST(Verify, RefusesAFinishedSumThatIsNotMarked) {
  auto programs = swap_and_sum_programs();
  programs[1].rounds[1][0].completes = false;
  EXPECT_THAT(fault_of(swap_and_sum(), programs),
              HasSubstr("finishes the sum, but is not marked complete"));
}

TEST(Verify, RefusesCompletesTwiceOnTheWayOfAnElement) {
  auto programs = swap_and_sum_programs();
  programs[0].scratch_places = 2;
  programs[0].rounds[1][0].target = scratch(1, 0);
  programs[0].rounds.push_back({completing(copy(scratch(1, 0), output(0)))});
  EXPECT_THAT(fault_of(swap_and_sum(), programs), HasSubstr("completes what is complete already"));
}

TEST(Verify, RefusesCompletesWhereNothingIsSummed) {
  auto programs = programs_of(built_in(Operation::all_gather, "ring"), 2);
  programs[0].rounds[0][2].completes = true;
  EXPECT_THAT(fault_of(built_in(Operation::all_gather, "ring"), programs),
              HasSubstr("sums nothing"));
  programs = swap_and_sum_programs();
  programs[0].rounds[0][1].completes = true;
  EXPECT_THAT(fault_of(swap_and_sum(), programs), HasSubstr("sums nothing"));
}

TEST(Verify, WantsTheCopyOfASingleRankMarkedAsComplete) {
  for (const std::string_view name : {"direct", "ring", "binomial"}) {
    auto programs = programs_of(built_in(Operation::all_reduce, name), 1);
    programs[0].rounds[0][0].completes = false;
    EXPECT_THAT(fault_of(built_in(Operation::all_reduce, name), programs),
                HasSubstr("not marked complete"));
  }
}

}  // namespace
}  // namespace paceline::collective
