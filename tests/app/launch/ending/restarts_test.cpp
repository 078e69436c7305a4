#include "paceline/app/launch/ending/restarts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "paceline/core/base/seed.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::launch {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

const std::vector<RankRecord> kTwoRanks(2);

Outcome failed_with(int exit_code) {
  return {.kind = Outcome::Kind::failed, .exit_code = exit_code, .root = 1};
}

TEST(Restarts, PausesDoubleUpToAMinuteAndASavedStepBeginsAnew) {
  Restarts restarts(100);
  for (const int expected : {1, 2, 4, 8, 16, 32, 60, 60, 60})
    EXPECT_EQ(restarts.after(failed_with(137), kTwoRanks), seconds(expected));
  EXPECT_THAT(restarts.told(), HasSubstr("no checkpoint was saved"));
  restarts.on_saved(40);
  EXPECT_EQ(restarts.after(failed_with(1), kTwoRanks), seconds(1));
  EXPECT_EQ(restarts.generation(), 11);
  EXPECT_EQ(restarts.told(),
            "restart in 1 s as generation 11; the newest checkpoint is of step 40; 1 failure "
            "without a new checkpoint of at most 100");
}

TEST(Restarts, OnlyANewerStepIsProgress) {
  Restarts restarts(2);
  restarts.on_saved(40);
  for (const std::uint64_t step : {40, 30}) {
    EXPECT_TRUE(restarts.after(failed_with(1), kTwoRanks));
    restarts.on_saved(step);
  }
  EXPECT_FALSE(restarts.after(failed_with(1), kTwoRanks));
  EXPECT_THAT(restarts.told(), HasSubstr("the newest checkpoint is of step 40"));
}

TEST(Restarts, WhatWouldEndInTheSameWayIsNotStartedAgain) {
  for (const int code : {2, 4}) EXPECT_FALSE(Restarts(9).after(failed_with(code), kTwoRanks));
  auto records = kTwoRanks;
  records[1].not_started = "cannot execute x";
  EXPECT_FALSE(Restarts(9).after(failed_with(1), records));
  EXPECT_FALSE(Restarts(0).after(failed_with(1), kTwoRanks)) << "none were asked for";
}

TEST(Restarts, ARunWhoseRanksEndedWellIsNotStartedAgainBecauseOfAServer) {
  auto records = kTwoRanks;
  records[1].server = 0;
  records[1].stayed = true;
  Restarts restarts(9);
  EXPECT_FALSE(restarts.after(failed_with(1), records));
  EXPECT_EQ(restarts.told(), "no restart: all ranks had ended well");
}

// Seeded supervisors: generations fail, save, or are stopped at random.
TEST(Restarts, NeverMoreThanNWithoutProgressAndNoneAfterAStop) {
  const std::uint64_t runs = test::is_nightly() ? 100'000 : 10'000;
  for (std::uint64_t run = 0; run < runs; ++run) {
    SeededNumbers numbers(test::seed(run + 1));
    const int most = static_cast<int>(numbers.below(5));
    Restarts restarts(most);
    int without_progress = 0, generations = 1;
    for (std::uint64_t step = 1;; ++step) {
      if (numbers.below(3) == 0) {
        restarts.on_saved(step);
        without_progress = 0;
      }
      Supervisor supervisor({.world_size = 2});
      const Supervisor::Moment now{};
      const std::uint64_t end = numbers.below(12);
      if (end == 0) (void)supervisor.on_signal(SIGTERM, now);
      if (end == 1) (void)supervisor.on_signal(SIGINT, now);
      if (end == 2) (void)supervisor.on_output_lost(EPIPE, now);
      if (end == 3) (void)supervisor.on_exit(0, 143 << 8, now);
      const bool is_well = end == 4;
      (void)supervisor.on_exit(0, is_well ? 0 : SIGKILL, now);
      (void)supervisor.on_exit(1, 0, now);
      const auto pause = restarts.after(supervisor.outcome(), supervisor.records());
      const bool was_stopped = end <= 3;
      if (!was_stopped && !is_well) ++without_progress;
      ASSERT_EQ(pause.has_value(), !was_stopped && !is_well && without_progress <= most) << run;
      if (!pause) break;
      ASSERT_EQ(restarts.generation(), ++generations);
    }
  }
}

}  // namespace
}  // namespace paceline::launch
