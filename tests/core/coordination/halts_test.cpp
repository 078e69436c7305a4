#include "paceline/core/coordination/halts.h"

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

TEST(Halts, OnLinksRanksThatStepAtTheirOwnPaceStandStillTogether) {
  for (const auto& options : {kShared, kTcp}) {
    std::vector<std::vector<Halt>> halts_of(3);
    std::atomic<int> moving = 0;
    run_ranks(3, options, [&](Job& job) {
      Halts halts(job.world());
      auto& seen = halts_of[static_cast<std::size_t>(job.rank())];
      const auto stand_still = [&](const Halt& halt) {
        seen.push_back(halt);
        job.world().barrier().wait();
        EXPECT_EQ(moving, 0) << "all are in the halt";
        job.world().barrier().wait();
      };
      const int steps = 20 * (job.rank() + 1);
      for (int step = 1; step <= steps; ++step) {
        ++moving;
        std::this_thread::yield();
        --moving;
        const bool asks = job.rank() == 1 && step % 10 == 0;
        if (const auto halt = asks ? halts.call(4, step) : halts.at_step(step)) stand_still(*halt);
      }
      while (const auto halt = halts.rest(steps)) stand_still(*halt);
    });
    ASSERT_EQ(halts_of[0].size(), 4u) << "each call is a halt, and there is no other";
    EXPECT_EQ(halts_of[0], halts_of[1]);
    EXPECT_EQ(halts_of[0], halts_of[2]);
    for (const Halt& halt : halts_of[0]) EXPECT_EQ(halt.reasons, 4u);
  }
}

TEST(Halts, ARankThatEndsWithoutARestIsNamedToThoseWhoWait) {
  run_ranks(3, [](Job& job) {
    auto halts = std::make_unique<Halts>(job.world());
    job.world().barrier().wait();
    if (job.rank() == 2) {
      halts.reset();
    } else {
      try {
        std::ignore = halts->rest(1);
        ADD_FAILURE() << "rank 2 never rests";
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
