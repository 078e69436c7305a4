#include "paceline/core/coordination/pause_point.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tests/core/collective/worlds.h"
#include "tests/core/coordination/long_waits.h"

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

// Rank 2 goes its own way, until both others have failed: the first one's deadline ends all, so it
// leaves the other one time to tell its stall. A rank that comes after the stall time would be
// named beside rank 2.
LongWaits others_wait(const std::function<void(PausePoint&)>& wait) {
  std::atomic<bool> never = false;
  std::latch others(2);
  const auto body = [&](Job& job) {
    PausePoint pauses(job.world());
    job.world().barrier().wait();
    if (job.rank() == 2) return others.wait();
    try {
      wait(pauses);
    } catch (const Error&) {
      others.count_down();
      throw;
    }
  };
  return long_waits(3, never, body, std::chrono::seconds(2), std::chrono::milliseconds(300));
}

TEST(PausePoint, WhoeverWaitsNamesTheRankThatDoesNotComeThoughRank0AloneKnowsIt) {
  const auto save = [](PausePoint& pauses) { std::ignore = pauses.call(1, 7); };
  const auto end = [](PausePoint& pauses) { std::ignore = pauses.wait_for_pause(7); };
  const std::string come =
      "not stood still for it (it may be in an operation that all ranks make: "
      "call Checkpoints::wait_for_all_ranks() before it)";
  for (const auto& [wait, waits] :
       {std::pair<std::function<void(PausePoint&)>, std::string>(
            save, "a save of all ranks for rank 2, which has " + come),
        {end, "the end of all ranks' steps for rank 2, which has not ended its own"}}) {
    const LongWaits said = others_wait(wait);
    for (const int rank : {0, 1}) {
      const std::string line = fmt::format("stall: for 0.3 s rank {} waits in {}\n", rank, waits);
      EXPECT_THAT(said.lines, ::testing::HasSubstr(line));
      const auto own = static_cast<std::size_t>(rank);
      EXPECT_THAT(said.failures[own], ::testing::HasSubstr(" waits in " + waits));
      EXPECT_EQ(said.blamed[own], std::vector{2});
    }
  }
}

TEST(PausePoint, IfRank0DoesNotSayWhoIsMissingItIsNamedItself) {
  std::atomic<bool> is_mute = false;
  std::latch is_over(1);
  const LongWaits said = long_waits(2, is_mute, [&](Job& job) {
    PausePoint pauses(job.world());
    job.world().barrier().wait();
    if (job.rank() == 0) return is_over.wait();
    is_mute = true;
    try {
      std::ignore = pauses.wait_for_pause(7);
    } catch (const Error&) {
      is_over.count_down();
      throw;
    }
  });
  expect_told(said, 1, "the end of all ranks' steps for rank 0, which does not answer");
}

}  // namespace
}  // namespace paceline::coordination::testing
