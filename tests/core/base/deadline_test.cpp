#include "paceline/core/base/deadline.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using namespace std::chrono_literals;

const Clock::time_point kNow = Clock::time_point(1000s);

TEST(Deadline, PassesAtItsMomentAndNotBefore) {
  const Deadline deadline = Deadline::at(kNow);
  EXPECT_FALSE(deadline.passed(kNow - 1ns));
  EXPECT_TRUE(deadline.passed(kNow));
  EXPECT_TRUE(deadline.passed(kNow + 1ns));
  EXPECT_FALSE(deadline.is_never());
}

TEST(Deadline, NeverDoesNotPass) {
  EXPECT_TRUE(Deadline().is_never());
  EXPECT_EQ(Deadline(), Deadline::never());
  EXPECT_FALSE(Deadline::never().passed());
  EXPECT_FALSE(Deadline::never().passed(kNow + std::chrono::hours(24 * 365 * 100)));
}

TEST(Deadline, LeavesWhatIsLeftButNoLessThanNothingAndNoMoreThanADay) {
  const Deadline deadline = Deadline::at(kNow + 5s);
  EXPECT_EQ(deadline.left(kNow), 5s);
  EXPECT_EQ(deadline.left(kNow + 5s), 0s);
  EXPECT_EQ(deadline.left(kNow + 9s), 0s);
  EXPECT_EQ(deadline.left(kNow - 48h), 24h);
  EXPECT_EQ(Deadline::never().left(kNow), 24h);
}

TEST(Deadline, SoonerIsTheEarlierOfTwoInEitherOrder) {
  const Deadline early = Deadline::at(kNow), late = Deadline::at(kNow + 1s);
  EXPECT_EQ(early.sooner(late), early);
  EXPECT_EQ(late.sooner(early), early);
  EXPECT_EQ(Deadline::never().sooner(early), early);
  EXPECT_EQ(early.sooner(Deadline::never()), early);
  EXPECT_TRUE(Deadline::never().sooner(Deadline::never()).is_never());
}

TEST(Deadline, InADurationIsCountedFromNow) {
  const auto before = Clock::now();
  const Deadline deadline = Deadline::in(1h);
  const auto after = Clock::now();
  EXPECT_GE(deadline.moment(), before + 1h);
  EXPECT_LE(deadline.moment(), after + 1h);
}

TEST(Deadline, InALifetimeIsNeverRatherThanOverflow) {
  EXPECT_TRUE(Deadline::in(Clock::duration::max()).is_never());
  EXPECT_TRUE(Deadline::in(std::chrono::milliseconds::max()).is_never());
  EXPECT_TRUE(Deadline::in(std::chrono::hours::max()).is_never());
}

TEST(Deadline, InATimeBeforeTheClockBeganHasPassed) {
  EXPECT_TRUE(Deadline::in(std::chrono::milliseconds::min()).passed());
}

}  // namespace
}  // namespace paceline
