#include "paceline/app/launch/ending/root_cause.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace paceline::launch {
namespace {

RankRecord ended(int wait_status, int stamp_ms, std::vector<int> blames = {}) {
  RankRecord record{.pid = 1, .wait_status = wait_status};
  record.stamp = Clock::time_point(std::chrono::milliseconds(stamp_ms));
  if (!blames.empty()) record.report = Failure{Fault::peer_lost, "lost", std::move(blames)};
  return record;
}
constexpr int kOne = 1 << 8;

TEST(RootCause, NobodyFailedNobodyIsIt) {
  EXPECT_EQ(find_root_cause({}), std::nullopt);
  EXPECT_EQ(find_root_cause({ended(0, 1), RankRecord{}}), std::nullopt);
}

TEST(RootCause, IsTheEarliestStampAndTheLowestRankAmongEqual) {
  EXPECT_EQ(find_root_cause({ended(kOne, 9), ended(kOne, 3), ended(kOne, 3)}), 1);
}

TEST(RootCause, FollowsBlameOverSeveralRanks) {
  EXPECT_EQ(find_root_cause({ended(kOne, 1, {1}), ended(kOne, 2, {2}), ended(SIGKILL, 3)}), 2);
}

TEST(RootCause, BlameOfARankThatDidNotFailCountsForNothing) {
  EXPECT_EQ(find_root_cause({ended(kOne, 5, {1}), ended(0, 1), ended(kOne, 9)}), 0);
}

TEST(RootCause, BlameOfOneselfOrOfNobodyCountsForNothing) {
  EXPECT_EQ(find_root_cause({ended(kOne, 1, {0}), ended(kOne, 2)}), 0);
  EXPECT_EQ(find_root_cause({ended(kOne, 1, {-1, 77}), ended(kOne, 2)}), 0);
}

TEST(RootCause, IsAwaitedWhileTheBlamedRankRuns) {
  EXPECT_TRUE(awaits_root_cause({ended(kOne, 1, {1}), RankRecord{}}));
  EXPECT_FALSE(awaits_root_cause({ended(kOne, 1, {1}), ended(0, 2)}));
  EXPECT_FALSE(awaits_root_cause({ended(kOne, 1), RankRecord{}}));
}

TEST(RootCause, OfSeveralBlamedRanksThoseThatFailedCount) {
  EXPECT_EQ(find_root_cause({RankRecord{}, ended(kOne, 1, {2, 1, 0}), ended(kOne, 9)}), 2);
  EXPECT_EQ(find_root_cause({ended(kOne, 9), ended(kOne, 1, {2, 1, 0}), RankRecord{}}), 0);
}

TEST(RootCause, AServerWhoseEndIsBorneIsNone) {
  std::vector<RankRecord> records = {ended(kOne, 5), ended(SIGKILL, 1)};
  records[1].borne = true;
  EXPECT_EQ(find_root_cause(records), 0);
  records[0].report = Failure{Fault::peer_lost, "lost", {1}};
  EXPECT_EQ(find_root_cause(records), 0) << "also of who blames it";
}

TEST(RootCause, NobodyHasDesertedAServerThatComesLate) {
  std::vector<RankRecord> records(3);
  for (RankRecord& one : records) one.joined = true;
  records[0].wait_status = 0;
  records[2] = {.late = true, .server = 1};  // it has not joined
  EXPECT_EQ(desertion(0, records), "") << "nobody has lost it";
  records[2] = {.wait_status = 0, .borne = true, .server = 1};
  EXPECT_EQ(desertion(2, records), "") << "a loss that is borne";
}

TEST(RootCause, StatusesReadAsAShellTellsThem) {
  EXPECT_EQ(exit_code_of(3 << 8), 3);
  EXPECT_EQ(exit_code_of(SIGKILL), 137);
  EXPECT_EQ(how_it_ended(3 << 8), "ended with code 3");
  EXPECT_EQ(how_it_ended(SIGSEGV | 0x80), "was killed by signal 11 (SIGSEGV)")
      << "0x80: it dumped core";
}

}  // namespace
}  // namespace paceline::launch
