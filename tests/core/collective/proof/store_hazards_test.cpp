#include "paceline/core/collective/proof/store_hazards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Rank 0 sums for both and stores the result into rank 1's output.
constexpr int kSums = 1, kStores = 2;
std::vector<Program> sum_and_store() {
  const Program summing{.chunks = 1,
                        .scratch_places = 2,
                        .rounds = {{recv(1, scratch(0, 0))},
                                   {completing(reduce(input(0), scratch(0, 0), output(0)))},
                                   {store(1, output(0), output(0))}}};
  const Program served{
      .chunks = 1, .scratch_places = 2, .rounds = {{send(0, input(0))}, {recv(0, output(0))}}};
  return {summing, served};
}

std::string fault_of_all_reduce(const std::vector<Program>& programs) {
  return fault_of({.operation = Operation::all_reduce,
                   .name = "sum_and_store",
                   .has_balanced_tree = for_any_count},
                  programs);
}

TEST(StoreHazards, AllowAStoreIntoASlotThatWasSentToTheStoringRankBefore) {
  EXPECT_EQ(fault_of_all_reduce(sum_and_store()), "");
}

TEST(StoreHazards, RefuseAStoreWhileThePeerStillReadsTheSlot) {
  // In place, the input that rank 1 copies in round 1 is the output that rank 0 may be storing
  // into.
  auto programs = sum_and_store();
  programs[1].rounds.insert(programs[1].rounds.begin() + 1, Round{copy(input(0), scratch(0, 0))});
  EXPECT_THAT(fault_of_all_reduce(programs),
              AllOf(HasSubstr("in place, "), HasSubstr("rank 0, round 2, step 0 (store to 1"),
                    HasSubstr("may land while rank 1, round 1, step 0 (copy: scratch(0, 0) = "
                              "input(0)) still uses")));
}

TEST(StoreHazards, RefuseAStoreWhileThePeerMayStillWriteTheSlot) {
  auto programs = sum_and_store();
  programs[1].rounds.insert(programs[1].rounds.begin() + 1, Round{copy(input(0), scratch(1, 0))});
  programs[1].rounds.insert(programs[1].rounds.begin() + 2, Round{copy(scratch(1, 0), output(0))});
  EXPECT_THAT(fault_of_all_reduce(programs), AllOf(HasSubstr("may land while rank 1, round 2")));
}

TEST(StoreHazards, LetThePeerUseTheSlotAfterItsReceive) {
  auto programs = sum_and_store();
  programs[1].rounds.push_back({copy(output(0), scratch(0, 0))});
  EXPECT_EQ(fault_of_all_reduce(programs), "");
}

TEST(StoreHazards, RefuseAStoreOverAViewThatTheStoringRankStillReads) {
  // Scratch place 0 of rank 0 is a view of rank 1's input, which in place is being stored over.
  auto programs = sum_and_store();
  programs[0].rounds[kStores].push_back(copy(scratch(0, 0), scratch(1, 0)));
  EXPECT_THAT(fault_of_all_reduce(programs), HasSubstr("in place, "));
  programs = sum_and_store();
  programs[0].rounds.push_back({copy(scratch(0, 0), scratch(1, 0))});
  EXPECT_THAT(fault_of_all_reduce(programs), HasSubstr("in place, "));
}

TEST(StoreHazards, AViewEndsWhereItsPlaceIsOverwritten) {
  auto programs = sum_and_store();
  programs[0].rounds[kSums].push_back(copy(input(0), scratch(0, 0)));
  EXPECT_NE(fault_of_all_reduce(programs), "") << "a round may not read and write a place";
  programs = sum_and_store();
  programs[0].rounds.insert(programs[0].rounds.begin() + kStores,
                            Round{copy(output(0), scratch(0, 0))});
  programs[0].rounds.push_back({copy(scratch(0, 0), scratch(1, 0))});
  EXPECT_EQ(fault_of_all_reduce(programs), "");
}

TEST(StoreHazards, RefuseAViewThatIsPassedOnToAThirdRank) {
  // Rank 2 could read rank 1's input through rank 0's view at any time.
  auto programs = sum_and_store();
  programs[0].rounds = {{recv(1, scratch(0, 0))},
                        {send(2, scratch(0, 0))},
                        {reduce(input(0), scratch(0, 0), scratch(0, 0))},
                        {recv(2, scratch(1, 0))},
                        {completing(reduce(scratch(0, 0), scratch(1, 0), output(0)))},
                        {store(1, output(0), output(0)), store(2, output(0), output(0))}};
  const Program third{
      .chunks = 1,
      .scratch_places = 2,
      .rounds = {{recv(0, scratch(0, 0))}, {send(0, input(0))}, {recv(0, output(0))}}};
  programs.push_back(third);
  EXPECT_THAT(fault_of_all_reduce(programs),
              AllOf(HasSubstr("in place, "), HasSubstr("store to 1")));
  // If the chunk is not passed on, the same programs are right.
  programs[0].rounds.erase(programs[0].rounds.begin() + 1);
  programs[2].rounds.erase(programs[2].rounds.begin());
  EXPECT_EQ(fault_of_all_reduce(programs), "");
}

TEST(StoreHazards, AReceiveThatReducesOrCopiesIsThroughWithTheSlotAtItsRoundsEnd) {
  auto programs = sum_and_store();
  programs[0].rounds = {{completing(recv_reduce(1, input(0), output(0), true))},
                        {store(1, output(0), output(0))}};
  EXPECT_EQ(fault_of_all_reduce(programs), "");
}

TEST(StoreHazards, RefuseAStoreInTheRoundThatStillReceivesTheSlot) {
  auto programs = sum_and_store();
  programs[0].rounds[kStores].push_back(recv(1, scratch(1, 0)));
  programs[1].rounds.insert(programs[1].rounds.begin() + 1, Round{send(0, input(0))});
  EXPECT_THAT(fault_of_all_reduce(programs),
              AllOf(HasSubstr("in place, "),
                    HasSubstr("may land while rank 1, round 1, step 0 (send to 0")));
}

TEST(StoreHazards, RefuseAStoreThatMeetsAReceiveOfAnotherSlot) {
  auto programs = sum_and_store();
  programs[1].rounds[1] = {recv(0, scratch(0, 0))};
  EXPECT_THAT(fault_of_all_reduce(programs), HasSubstr("a store needs a recv of the same slot"));
  programs[1].rounds[1] = {recv_reduce(0, input(0), output(0), true)};
  EXPECT_THAT(fault_of_all_reduce(programs), HasSubstr("a store needs a recv of the same slot"));
}

TEST(StoreHazards, RefuseAStoreIntoScratchOrIntoAnInput) {
  for (const Slot& slot : {scratch(0, 0), input(0)}) {
    auto programs = sum_and_store();
    programs[0].rounds[kStores][0].target = slot;
    EXPECT_THAT(fault_of_all_reduce(programs), HasSubstr("may only store into an output"));
  }
}

TEST(StoreHazards, RefuseDirectAllReduceThatStoresOneRoundTooEarly) {
  // The leaves of the last sum are still views of the peers' inputs.
  const Algorithm direct = built_in(Operation::all_reduce, "direct");
  for (const int ranks : {2, 3, 4, 7}) {
    auto programs = programs_of(direct, ranks);
    for (Program& program : programs) {
      const Round spread = program.rounds.back();
      program.rounds.pop_back();
      program.rounds.back().insert(program.rounds.back().end(), spread.begin(), spread.end());
    }
    EXPECT_NE(fault_of(direct, programs), "") << ranks;
  }
}

}  // namespace
}  // namespace paceline::collective
