#include "paceline/core/coordination/pause_point.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tests/core/collective/worlds.h"

namespace paceline::coordination::testing {
namespace {

using collective::testing::kShared;
using collective::testing::kTcp;
using test::run_ranks;

TEST(PausePoint, OnLinksRanksThatStepAtTheirOwnPaceStandStillTogether) {
  for (const auto& options : {kShared, kTcp}) {
    std::vector<std::vector<Pause>> pauses_of(3);
    std::atomic<int> moving = 0;
    run_ranks(3, options, [&](Job& job) {
      PausePoint pauses(job.world());
      auto& seen = pauses_of[static_cast<std::size_t>(job.rank())];
      const auto stand_still = [&](const Pause& pause) {
        seen.push_back(pause);
        job.world().barrier().wait();
        EXPECT_EQ(moving, 0) << "all are in the pause";
        job.world().barrier().wait();
      };
      const int steps = 20 * (job.rank() + 1);
      for (int step = 1; step <= steps; ++step) {
        ++moving;
        std::this_thread::yield();
        --moving;
        const bool asks = job.rank() == 1 && step % 10 == 0;
        if (const auto pause = asks ? pauses.call(4, step) : pauses.at_step(step))
          stand_still(*pause);
      }
      while (const auto pause = pauses.wait_for_pause(steps)) stand_still(*pause);
    });
    ASSERT_EQ(pauses_of[0].size(), 4u) << "each call is a pause, and there is no other";
    EXPECT_EQ(pauses_of[0], pauses_of[1]);
    EXPECT_EQ(pauses_of[0], pauses_of[2]);
    for (const Pause& pause : pauses_of[0]) EXPECT_EQ(pause.reasons, 4u);
  }
}

TEST(PausePoint, ARankThatEndsWithoutAWaitIsNamedToThoseWhoWait) {
  run_ranks(3, [](Job& job) {
    auto pauses = std::make_unique<PausePoint>(job.world());
    job.world().barrier().wait();
    if (job.rank() == 2) {
      pauses.reset();
    } else {
      try {
        std::ignore = pauses->wait_for_pause(1);
        ADD_FAILURE() << "rank 2 never waits";
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::peer_lost);
        EXPECT_EQ(error.failure().ranks, std::vector{2});
        EXPECT_THAT(error.what(), ::testing::HasSubstr("rank 2"));
      }
    }
    job.world().barrier().wait();
  });
}

}  // namespace
}  // namespace paceline::coordination::testing
