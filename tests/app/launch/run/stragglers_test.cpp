#include "paceline/app/launch/run/stragglers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

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

TEST(Starting, AServerThatIsMissingIsNamedByItsOwnNumber) {
  auto start = starting();
  auto records = started(3);
  records[0].joined = records[1].joined = true;
  records[2].server = 0;
  start.on_joined(kBegun);
  EXPECT_THAT(start.line(records, kBegun + 5s).value_or(""),
              HasSubstr("ranks 0, 1 have joined; missing: server 0 (pid 102, host here): started"));
  EXPECT_EQ(start.overdue(records, kBegun + 300s), 2);
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

TEST(Starting, NobodyWaitsForAServerThatComesInThePlaceOfAnotherOne) {
  auto records = started(2);
  for (RankRecord& record : records) record.joined = true;
  records.push_back({.late = true, .server = 1});
  Starting start({.host = "here"}, kBegun);
  start.on_joined(kBegun);
  EXPECT_TRUE(start.next_timer(records).is_never());
  EXPECT_FALSE(start.line(records, kBegun + 1h));
  EXPECT_FALSE(start.overdue(records, kBegun + 1h));
}

using namespace std::chrono_literals;

constexpr Finishing::Moment kEnded{1000s};

std::vector<RankRecord> joined(int ranks) {
  std::vector<RankRecord> records(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    records[static_cast<std::size_t>(rank)].pid = 100 + rank;
    records[static_cast<std::size_t>(rank)].joined = true;
  }
  return records;
}

void end(RankRecord& record, Finishing::Moment when = kEnded) {
  record.wait_status = 0;
  record.stamp = when;
}

Finishing finishing(int stopped = 0) {
  return Finishing(
      {.stall = 5s, .host = "here", .is_stopped = [=](int pid) { return pid == stopped; }});
}

TEST(Finishing, WhileAllRunOrNoneDoesNothingIsSaid) {
  auto finish = finishing();
  auto records = joined(2);
  EXPECT_TRUE(finish.next_timer(records).is_never());
  EXPECT_FALSE(finish.line(records, kEnded + 1h));
  end(records[0]);
  end(records[1]);
  EXPECT_TRUE(finish.next_timer(records).is_never());
  EXPECT_FALSE(finish.line(records, kEnded + 1h));
}

TEST(Finishing, OfProgramsThatNeverJoinAndOfServersWhileRanksRunNothingIsSaid) {
  auto finish = finishing();
  auto records = joined(3);
  for (RankRecord& record : records) record.joined = false;
  end(records[0]);
  EXPECT_TRUE(finish.next_timer(records).is_never());
  records = joined(3);
  records[1].server = 0;
  records[2].server = 1;
  EXPECT_TRUE(finish.next_timer(records).is_never());
  EXPECT_FALSE(finish.line(records, kEnded + 1h));
}

TEST(Finishing, ServersThatStayAfterAllRanksAreNamedFromTheLastEndOn) {
  auto finish = finishing(/*stopped=*/103);
  auto records = joined(5);
  for (const std::size_t server : {2U, 3U, 4U})
    records[server].server = static_cast<int>(server - 2);
  end(records[0]);
  end(records[1], kEnded + 20s);
  end(records[4]);
  EXPECT_EQ(finish.next_timer(records), Deadline::at(kEnded + 25s)) << "they served until then";
  EXPECT_FALSE(finish.line(records, kEnded + 24s));
  EXPECT_EQ(finish.line(records, kEnded + 25s).value_or(""),
            "paceline: the end waits for 5 s: ranks 0, 1 have ended; server 0 (pid 102, host here) "
            "runs on; server 1 (pid 103, host here) is stopped (kill -CONT 103 lets it go on)\n");
  end(records[2]);
  end(records[3]);
  EXPECT_TRUE(finish.next_timer(records).is_never());
}

TEST(Finishing, AServerIsNotNamedWhileARankIsWaitedFor) {
  auto finish = finishing();
  auto records = joined(3);
  records[2].server = 0;
  end(records[0]);
  EXPECT_EQ(finish.line(records, kEnded + 5s).value_or(""),
            "paceline: the end waits for 5 s: rank 0 has ended; rank 1 (pid 101, host here) runs "
            "on\n");
  end(records[1], kEnded + 60s);
  EXPECT_FALSE(finish.line(records, kEnded + 64s));
  EXPECT_THAT(finish.line(records, kEnded + 65s).value_or(""),
              HasSubstr("waits for 5 s: ranks 0, 1 have ended; server 0 (pid 102, host here) "))
      << "this wait is another one";
}

TEST(Finishing, AtTheStallTimeALineSaysWhoHasEndedAndHowTheOthersRunOn) {
  auto finish = finishing(/*stopped=*/102);
  auto records = joined(5);
  end(records[0], kEnded + 2s);
  end(records[4], kEnded);
  records[1].left = true;
  records[3].host = "far";
  EXPECT_EQ(finish.next_timer(records), Deadline::at(kEnded + 5s)) << "from the first end on";
  EXPECT_FALSE(finish.line(records, kEnded + 4s));
  EXPECT_EQ(finish.line(records, kEnded + 5s).value_or(""),
            "paceline: the end waits for 5 s: ranks 0, 4 have ended; rank 1 (pid 101, host here) "
            "has left the job, and its process runs on; rank 2 (pid 102, host here) is stopped "
            "(kill -CONT 102 lets it go on); rank 3 (pid 103, host far) runs on\n");
  EXPECT_EQ(finish.next_timer(records), Deadline::at(kEnded + 10s)) << "again after twice as long";
  EXPECT_FALSE(finish.line(records, kEnded + 9s));
}

TEST(Finishing, AProcessThatRunsIsNotStoppedNorIsOneThatIsGone) {
  EXPECT_FALSE(is_stopped_process(::getpid()));
  EXPECT_FALSE(is_stopped_process(0));
}

}  // namespace

}  // namespace paceline::launch
