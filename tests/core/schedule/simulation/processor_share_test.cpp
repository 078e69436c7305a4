#include "paceline/core/schedule/simulation/processor_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace paceline::schedule {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

template <typename Check>
void for_all(const Check& check) {
  for (const double processors : {.1, .25, .5, 1.0, 1.5, 2.0, 2.5, 8.0}) {
    for (const double workers : {0.0, .5, 1.0, 2.0}) {
      for (const double link : {0.0, .05, .25, .5, .9, 1.5}) check(processors, workers, link);
    }
  }
}

TEST(ProcessorShare, WhereThereAreEnoughAllGoAtFullSpeed) {
  for_all([](double processors, double workers, double link) {
    EXPECT_EQ(share_of(kUnlimited, {workers, link}), ProcessorShare());
    if (workers + link > processors) return;
    EXPECT_EQ(share_of(processors, {workers, link}), ProcessorShare());
  });
}

TEST(ProcessorShare, NothingIsLeftUnusedThatSomebodyWantsAndNobodyGetsMoreThanItWants) {
  for_all([](double processors, double workers, double link) {
    const ProcessorShare share = share_of(processors, {workers, link});
    EXPECT_GT(share.worker, 0);
    EXPECT_GT(share.link, 0);
    EXPECT_LE(share.worker, 1);
    EXPECT_LE(share.link, 1);
    EXPECT_NEAR(workers * share.worker + link * share.link, std::min(processors, workers + link),
                1e-12);
  });
}

TEST(ProcessorShare, WhoIsSlowedHasNoLessThanAnyOther) {
  for_all([](double processors, double workers, double link) {
    const ProcessorShare share = share_of(processors, {workers, link});
    if (workers == 0 || link == 0) return;
    const double of_link = link * share.link;
    EXPECT_TRUE(share.worker == 1 || share.worker >= of_link - 1e-12);
    EXPECT_TRUE(share.link == 1 || of_link >= share.worker - 1e-12);
  });
}

}  // namespace
}  // namespace paceline::schedule
