#include "paceline/core/transport/reactor/spin_rule.h"

#include <gtest/gtest.h>

namespace paceline::transport {
namespace {

using std::chrono::microseconds;

constexpr microseconds kLong{500};

SpinRule rule_after_vain_spins(int spins) {
  SpinRule rule;
  for (int spin = 0; spin < spins; ++spin) rule.gave_up(kLong);
  return rule;
}

// Whether a thread that waits for `waited` yields in some of that time.
int waits_that_yield(SpinRule& rule, int waits, microseconds waited) {
  int yielding = 0;
  for (int wait = 0; wait < waits; ++wait) {
    yielding += rule.yields(waited) ? 1 : 0;
    rule.found(waited);
  }
  return yielding;
}

TEST(SpinRule, KeepsTheCoreWhileNewsCome) {
  SpinRule rule;
  EXPECT_EQ(waits_that_yield(rule, 1000, kLong), 0);
}

TEST(SpinRule, YieldsAfterSpinsInVainButNotAtOnce) {
  EXPECT_FALSE(rule_after_vain_spins(SpinRule::kMostVain - 1).yields(kLong));
  const SpinRule rule = rule_after_vain_spins(SpinRule::kMostVain);
  EXPECT_TRUE(rule.yields(SpinRule::kYieldAfter));
  EXPECT_FALSE(rule.yields(SpinRule::kYieldAfter - microseconds(1)));
}

TEST(SpinRule, OnlySpinsInARowCount) {
  SpinRule rule = rule_after_vain_spins(SpinRule::kMostVain - 1);
  rule.found(SpinRule::kYieldAfter);
  rule.gave_up(kLong);
  EXPECT_FALSE(rule.yields(kLong));
}

TEST(SpinRule, AThreadThatSleepsAtOnceHasNotSpunInVain) {
  SpinRule rule;
  for (int sleep = 0; sleep < 100; ++sleep) rule.gave_up(microseconds(1));
  EXPECT_FALSE(rule.yields(kLong));
}

TEST(SpinRule, TriesToKeepTheCoreNowAndThen) {
  SpinRule rule = rule_after_vain_spins(SpinRule::kMostVain);
  constexpr int kRounds = 10;
  int trials = 0;
  for (int wait = 0; wait < kRounds * SpinRule::kTrialEvery; ++wait) {
    trials += rule.yields(SpinRule::kTrial - microseconds(1)) ? 0 : 1;
    rule.found(kLong);
  }
  EXPECT_EQ(trials, kRounds);
}

TEST(SpinRule, NewsInATrialEndTheYielding) {
  SpinRule rule = rule_after_vain_spins(SpinRule::kMostVain);
  EXPECT_EQ(waits_that_yield(rule, 1000, SpinRule::kTrial - microseconds(1)),
            SpinRule::kTrialEvery - 1);
}

TEST(SpinRule, ShortWaitsNeverYieldAndTeachNothing) {
  SpinRule rule = rule_after_vain_spins(SpinRule::kMostVain);
  EXPECT_EQ(waits_that_yield(rule, 1000, microseconds(1)), 0);
  EXPECT_TRUE(rule.yields(SpinRule::kYieldAfter));
}

}  // namespace
}  // namespace paceline::transport
