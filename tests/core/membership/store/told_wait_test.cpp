#include "paceline/core/membership/store/told_wait.h"

#include <gtest/gtest.h>

#include <semaphore>

namespace paceline::membership {
namespace {

using namespace std::chrono_literals;

TEST(ToldWait, IsToldAgainAndAgainWhileTheThreadBlocks) {
  std::counting_semaphore<> told(0);
  const ToldWait wait(1ms, [&told] {
    told.release();
    return "this test waits for itself";
  });
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(told.try_acquire_for(10s));
}

TEST(ToldWait, OfAShortWaitNothingIsSaid) {
  bool told = false;
  {
    const ToldWait wait(1h, [&told] { return told = true, "no"; });
  }
  EXPECT_FALSE(told);
}

TEST(Tellings, TheNextIsTwiceAsFarAway) {
  Tellings tellings(1h);
  const auto first = tellings.next();
  EXPECT_FALSE(tellings.is_due());
  EXPECT_EQ(tellings.next(), first);
}

}  // namespace
}  // namespace paceline::membership
