// Laws of all models of consistency as values.
#include "paceline/core/server/consistency/consistency.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::server {
namespace {

Pacing pacing(std::string_view text) {
  return pacing_of(parse_consistency(text).value());
}

TEST(Consistency, EveryModelIsChosenByItsNameAndByItsText) {
  std::vector<std::string_view> names;
  for (const Consistency& one : built_in_consistencies()) {
    names.push_back(one.name);
    const std::string text = parse_consistency(one.name).value().text();
    EXPECT_EQ(parse_consistency(text).value().text(), text);
    EXPECT_FALSE(one.summary.empty());
  }
  EXPECT_THAT(names, testing::ElementsAre("admm", "asp", "backup_workers", "bounded_delay", "bsp",
                                          "dc_asgd", "downpour", "elastic", "ssp",
                                          "staleness_aware", "timeout"));
}

TEST(Consistency, ARowThatMayBeReadCanShowAllOwnUpdates) {
  for (const char* text : {"asp", "ssp:staleness=0", "ssp:staleness=3", "ssp:staleness=9",
                           "ssp:staleness=2,best_effort=on"}) {
    const Pacing one = pacing(text);
    for (std::int64_t clock = 0; clock < 20; ++clock)
      for (std::int64_t lowest = 0; lowest <= clock; ++lowest)
        if (lowest >= one.least_clock(clock)) {
          EXPECT_GT(one.shown_below(lowest), clock - 1) << text;
        }
  }
}

TEST(Consistency, OnlySspOnItsOwnTermsShowsUpdatesBelowTheBound) {
  EXPECT_EQ(pacing("ssp:staleness=3").shown_below(5), 8);
  EXPECT_EQ(pacing("ssp:staleness=3,best_effort=on").shown_below(5), kAnyLead);
  EXPECT_EQ(pacing("asp").shown_below(5), kAnyLead);
  EXPECT_EQ(pacing("asp").least_clock(5), kAnyClock);
}

TEST(Consistency, StepsThatCloseWithoutSomeNeedOtherWorkers) {
  EXPECT_TRUE(check_pacing(pacing("backup_workers:spare=3"), 4));
  EXPECT_FALSE(check_pacing(pacing("backup_workers:spare=4"), 4));
  EXPECT_TRUE(check_pacing(pacing("timeout:quorum=4"), 4));
  EXPECT_FALSE(check_pacing(pacing("timeout:quorum=5"), 4));
}

TEST(Consistency, AStepOfSoftsyncHasAPushAtLeast) {
  EXPECT_TRUE(check_pacing(pacing("staleness_aware:softsync=4"), 4));
  const auto refused = check_pacing(pacing("staleness_aware:softsync=5"), 4);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().what, testing::HasSubstr("set softsync to at most 4"));
  EXPECT_EQ(pacing("staleness_aware").pushes_in_step(30), 1u);
  EXPECT_EQ(pacing("staleness_aware:softsync=1").pushes_in_step(30), 30u);
  EXPECT_EQ(pacing("staleness_aware:softsync=7").pushes_in_step(30), 4u);
  EXPECT_EQ(pacing("staleness_aware:softsync=7").pushes_in_step(3), 1u) << "others have left";
}

TEST(Consistency, TheDelayFitsTheWindowOfUnansweredPushes) {
  EXPECT_FALSE(parse_consistency("bounded_delay:steps=8"));
  EXPECT_LT(pacing("bounded_delay:steps=7").lead, kWindow);
}

}  // namespace
}  // namespace paceline::server
