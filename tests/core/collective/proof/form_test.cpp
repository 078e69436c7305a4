#include "paceline/core/collective/proof/form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective {
namespace {

using namespace testing;
using ::testing::HasSubstr;

TEST(Form, RefusesPeersThatDoNotExistOrAreTheRankItself) {
  for (const int peer : {-1, 0, 2, 100}) {
    auto programs = swap_and_sum_programs();
    programs[0].rounds[0][0].peer = peer;
    EXPECT_THAT(fault_of(swap_and_sum(), programs), HasSubstr("has no peer"));
  }
}

TEST(Form, RefusesSlotsThatTheProgramDoesNotHave) {
  auto programs = swap_and_sum_programs();
  programs[1].rounds[0][0].source = input(1);
  EXPECT_THAT(fault_of(swap_and_sum(), programs), HasSubstr("names chunk 1 of 1"));
  programs = swap_and_sum_programs();
  programs[1].rounds[0][1].target = scratch(1, 0);
  EXPECT_THAT(fault_of(swap_and_sum(), programs), HasSubstr("names place 1 of 1"));
}

TEST(Form, RefusesRanksThatCutTheBufferDifferently) {
  auto programs = swap_and_sum_programs();
  programs[1].chunks = 2;
  EXPECT_THAT(fault_of(swap_and_sum(), programs), HasSubstr("rank 1 has 2 chunks, rank 0 has 1"));
}

TEST(Form, RefusesWritesIntoTheInput) {
  auto programs = swap_and_sum_programs();
  programs[0].rounds[1][0].target = input(0);
  EXPECT_THAT(fault_of(swap_and_sum(), programs), HasSubstr("writes into an input"));
}

TEST(Form, RefusesSlotsThatTheRankDoesNotHaveInTheOperation) {
  auto gather = programs_of(built_in(Operation::all_gather, "ring"), 4);
  gather[1].rounds[0][0].source = input(3);
  EXPECT_THAT(fault_of(built_in(Operation::all_gather, "ring"), gather),
              HasSubstr("uses input(3), which rank 1 does not have in all_gather"));

  auto scatter = programs_of(built_in(Operation::reduce_scatter, "ring"), 4);
  scatter[1].rounds[0][1].target = output(3);
  EXPECT_THAT(fault_of(built_in(Operation::reduce_scatter, "ring"), scatter),
              HasSubstr("uses output(3), which rank 1 does not have in reduce_scatter"));

  auto spread = programs_of(built_in(Operation::broadcast, "binomial"), 4);
  spread[2].rounds[1][0].source = input(0);
  EXPECT_THAT(fault_of(built_in(Operation::broadcast, "binomial"), spread),
              HasSubstr("uses input(0), which rank 2 does not have in broadcast"));
}

TEST(Form, RefusesASlotReadInTheRoundThatWritesIt) {
  auto programs = swap_and_sum_programs();
  programs[0].rounds = {
      {programs[0].rounds[0][0], programs[0].rounds[0][1], programs[0].rounds[1][0]}};
  EXPECT_THAT(fault_of(swap_and_sum(), programs),
              HasSubstr("uses what step 1 of its round writes"));
}

TEST(Form, RefusesASlotWrittenTwiceInARound) {
  auto programs = swap_and_sum_programs();
  programs[0].rounds[1].push_back(programs[0].rounds[1][0]);
  EXPECT_THAT(fault_of(swap_and_sum(), programs),
              HasSubstr("uses what step 0 of its round writes"));
}

TEST(Form, RefusesAWriteToTheOutputThatInPlaceDestroysWhatTheRoundReads) {
  // Sends the own part and takes the peer's straight into the output: right only where input and
  // output differ.
  auto programs = swap_and_sum_programs();
  for (Program& program : programs) program.rounds[0][1].target = output(0);
  programs[0].rounds[1][0] = completing(reduce(input(0), output(0), output(0)));
  programs[1].rounds[1][0] = completing(reduce(output(0), input(0), output(0)));
  EXPECT_THAT(fault_of(swap_and_sum(), programs), HasSubstr("in place, uses what step"));
}

}  // namespace
}  // namespace paceline::collective
