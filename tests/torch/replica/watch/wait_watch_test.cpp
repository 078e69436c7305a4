// Waits that nothing can end, among real ranks.
#include "paceline/torch/replica/watch/wait_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "paceline/core/base/stopwatch.h"
#include "tests/support/local_world.h"

namespace paceline::replica {
namespace {

using Lane = WaitWatch::Lane;

struct Told {
  Fault fault = Fault::io;
  std::string what = "nothing was thrown";
};

template <typename Call>
Told told_in(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.fault(), error.what()};
  }
  return {};
}

TEST(WaitWatch, RanksThatWaitInDifferentGroupsAreToldBothPlaces) {
  for (const int ranks : {2, 3}) {
    test::run_ranks(ranks, [](Job& job) {
      const auto one = job.world().split(0), other = job.world().split(0);
      WaitWatch watch(job.world());
      const bool is_first = job.rank() == 0;
      const WatchedLane lane(&watch, is_first ? Lane::facts : Lane::gathers);
      const Stopwatch since;
      const Told told = told_in([&] {
        lane.wait(lane.call([&] { return (is_first ? *one : *other).barrier(); }),
                  [&] { return is_first ? "here" : "there"; });
      });
      EXPECT_EQ(told.fault, Fault::mismatch);
      EXPECT_THAT(told.what, testing::ContainsRegex("rank 0 waits here, rank [12] waits there"));
      EXPECT_LT(since.seconds(), 3) << "0.3 s, on a machine that is not slow";
    });
  }
}

// Rank 1 comes when rank 0 has told that it waits.
TEST(WaitWatch, ARankThatIsSlowIsWaitedFor) {
  std::promise<void> has_waited;
  test::run_ranks(2, [&](Job& job) {
    const auto group = job.world().split(0);
    WaitWatch watch(job.world());
    const WatchedLane lane(&watch, Lane::facts);
    if (job.rank() == 1) has_waited.get_future().wait();
    lane.wait(lane.call([&] { return group->barrier(); }), [&] {
      if (job.rank() == 0) has_waited.set_value();
      return std::string("in a barrier");
    });
  });
}

TEST(WaitWatch, WithoutOneCallsAreMadeAsTheyAre) {
  test::run_ranks(2, [&](Job& job) {
    const WatchedLane lane;
    lane.wait(lane.call([&] { return job.world().barrier(); }), [] { return "nowhere"; });
  });
}

}  // namespace
}  // namespace paceline::replica
