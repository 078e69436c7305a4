#include "paceline/core/schedule/simulation/fusion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "paceline/core/schedule/replay/replay_models.h"
#include "tests/core/schedule/random_instance.h"
#include "tests/support/seed.h"

namespace paceline::schedule {
namespace {

double best_of_all(const Instance& one, const TransferTime& transfer) {
  double best = std::numeric_limits<double>::infinity();
  for (const Cuts& cuts : all_cuts(static_cast<int>(one.bytes.size())))
    best = std::min(best, serial_end(one.ready, one.bytes, transfer, cuts));
  return best;
}

TEST(ExactFusion, IsTheBestOfAllGroupingsUpTo12Tensors) {
  SeededNumbers numbers(test::seed(7));
  for (int trial = 0; trial < 120; ++trial) {
    const Instance one = random_instance(numbers, trial < 10 ? 12 : 1 + trial % 9);
    const double a = one_of(numbers, {0, .01, .1, .5, 1}), b = one_of(numbers, {.1, .5, 1, 2});
    const TransferTime affine = topology::Line{a, b};
    const TransferTime stepped = [=](double n) { return a + b * std::ceil(n / .7); };
    for (const TransferTime& transfer : {affine, stepped}) {
      const Fusion fusion = exact_fusion(one.ready, one.bytes, transfer);
      const double best = best_of_all(one, transfer), slack = 1e-12 * (1 + best);
      EXPECT_NEAR(fusion.end, best, slack);
      EXPECT_NEAR(serial_end(one.ready, one.bytes, transfer, fusion.cuts), best, slack);
    }
  }
}

TEST(ExactFusion, IsNeverLaterThanTheReleasedRuleWaitFreeOrBarrier) {
  SeededNumbers numbers(test::seed(11));
  for (int trial = 0; trial < 500; ++trial) {
    const Instance one = random_instance(numbers, 1 + trial % 30);
    const int tensors = static_cast<int>(one.bytes.size());
    const topology::Line line{one_of(numbers, {0, .01, .1, .5, 1}), one_of(numbers, {.1, 1, 2})};
    const double exact = exact_fusion(one.ready, one.bytes, line).end;
    const Fusion released = released_fusion(one.ready, one.bytes, line);
    EXPECT_LE(exact, released.end + 1e-12);
    EXPECT_NEAR(released.end, serial_end(one.ready, one.bytes, line, released.cuts), 1e-12);
    for (const Cuts& cuts : {one_group(tensors), single_tensors(tensors)})
      EXPECT_LE(exact, serial_end(one.ready, one.bytes, line, cuts) + 1e-12);
  }
}

TEST(ExactFusion, WithoutStartUpNothingBeatsSingleTensors) {
  SeededNumbers numbers(test::seed(13));
  for (int trial = 0; trial < 100; ++trial) {
    const Instance one = random_instance(numbers, 12);
    const topology::Line line{0, 1};
    EXPECT_NEAR(exact_fusion(one.ready, one.bytes, line).end,
                serial_end(one.ready, one.bytes, line, single_tensors(12)), 1e-12);
  }
}

TEST(ExactFusion, UnderAHugeStartUpAllTravelTogether) {
  SeededNumbers numbers(test::seed(17));
  for (int trial = 0; trial < 100; ++trial) {
    const Instance one = random_instance(numbers, 12);
    EXPECT_EQ(exact_fusion(one.ready, one.bytes, topology::Line{1e6, 1}).cuts, one_group(12));
    EXPECT_EQ(released_fusion(one.ready, one.bytes, {1e6, 1}).cuts, one_group(12));
  }
}

TEST(ReleasedFusion, MergesAllOfTheKnownCounterexampleWhereTwoGroupsAreBest) {
  const Instance one{{.128, .560, 1.473, 1.943, 2.406, 3.351, 3.880},
                     {.002, 2.299, .022, .094, .001, .003, .006}};
  const topology::Line line{1, 1};
  EXPECT_NEAR(released_fusion(one.ready, one.bytes, line).end, 7.307, 2e-3);
  EXPECT_NEAR(exact_fusion(one.ready, one.bytes, line).end, 5.007, 2e-3);
}

TEST(ReleasedFusion, IsWithinThreePerMilleOfTheOptimumOnTheSurveysModels) {
  for (const Model& model : replay_models()) {
    const auto ready = ready_times(model), bytes = sent_bytes(model);
    for (const topology::Line line : {topology::Line{1e-4, 1e-9}, {5e-4, 3e-10}, {1e-3, 1.5e-9}}) {
      EXPECT_LE(released_fusion(ready, bytes, line).end,
                exact_fusion(ready, bytes, line).end * 1.003)
          << model.name;
    }
  }
}

}  // namespace
}  // namespace paceline::schedule
