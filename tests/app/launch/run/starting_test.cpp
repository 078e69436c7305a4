#include "paceline/app/launch/run/starting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::launch {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Starting::Moment kBegun{1000s};

std::vector<RankRecord> started(int ranks) {
  std::vector<RankRecord> records(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) records[static_cast<std::size_t>(rank)].pid = 100 + rank;
  return records;
}

Starting starting() {
  return Starting({.stall = 5s, .limit = 300s, .host = "here"}, kBegun);
}

TEST(Starting, OfProgramsThatNeverJoinNothingIsSaid) {
  auto start = starting();
  const auto records = started(3);
  EXPECT_TRUE(start.next_timer(records).is_never());
  EXPECT_FALSE(start.line(records, kBegun + 1h));
  EXPECT_FALSE(start.overdue(records, kBegun + 1h));
}

TEST(Starting, AtTheStallTimeALineSaysWhoHasJoinedWhoIsMissingAndWhere) {
  auto start = starting();
  auto records = started(5);
  records[0].joined = records[2].joined = true;
  records[3].host = records[4].host = "far";
  start.on_joined(kBegun + 60s);
  EXPECT_EQ(start.next_timer(records), Deadline::at(kBegun + 65s));
  EXPECT_FALSE(start.line(records, kBegun + 64s));
  const auto line = start.line(records, kBegun + 65s);
  ASSERT_TRUE(line);
  EXPECT_THAT(*line, AllOf(HasSubstr("waits for 5 s: ranks 0, 2 have joined; missing: rank 1 (pid "
                                     "101, host here): started, but"),
                           HasSubstr("; ranks 3, 4 (host far): started, but"),
                           HasSubstr("paceline::init()"), HasSubstr("env -i"),
                           HasSubstr("after 300 s (--start-timeout)")));
  EXPECT_EQ(start.next_timer(records), Deadline::at(kBegun + 70s)) << "again after twice as long";
}

TEST(Starting, AProcessThatWasNeverStartedIsWaitedForFromTheBeginning) {
  auto start = starting();
  auto records = started(2);
  records[1] = {.host = "far"};
  const auto line = start.line(records, kBegun + 5s);
  ASSERT_TRUE(line);
  EXPECT_THAT(*line, AllOf(HasSubstr("nobody has joined"),
                           HasSubstr("rank 1 (host far): no process yet: the way to that host "
                                     "(ssh) has not answered")));
}

TEST(Starting, AtItsLimitItNamesWhoDidNotJoin) {
  auto start = starting();
  auto records = started(3);
  records[0].joined = true;
  records[1].wait_status = 0;
  start.on_joined(kBegun);
  EXPECT_FALSE(start.overdue(records, kBegun + 299s));
  EXPECT_EQ(start.overdue(records, kBegun + 300s), 2) << "rank 1 has ended";
  EXPECT_THAT(start.too_late(2, records), HasSubstr("did not join within 300 s (--start-timeout)"));
}

TEST(Starting, WhenAllHaveJoinedNothingIsLeftToWatch) {
  auto start = starting();
  auto records = started(2);
  records[0].joined = records[1].joined = true;
  start.on_joined(kBegun);
  EXPECT_TRUE(start.next_timer(records).is_never());
  EXPECT_FALSE(start.overdue(records, kBegun + 1h));
}

}  // namespace
}  // namespace paceline::launch
