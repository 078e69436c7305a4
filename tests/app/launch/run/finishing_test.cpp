#include "paceline/app/launch/run/finishing.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace paceline::launch {
namespace {

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

TEST(Finishing, OfProgramsThatNeverJoinAndOfServersNothingIsSaid) {
  auto finish = finishing();
  auto records = joined(3);
  for (RankRecord& record : records) record.joined = false;
  end(records[0]);
  EXPECT_TRUE(finish.next_timer(records).is_never());
  records = joined(3);
  end(records[0]);
  records[1].server = 0;
  records[2].server = 1;
  EXPECT_TRUE(finish.next_timer(records).is_never());
  EXPECT_FALSE(finish.line(records, kEnded + 1h));
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
