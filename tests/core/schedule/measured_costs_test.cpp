#include "paceline/core/schedule/measured_costs.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/local_world.h"

namespace paceline::schedule {
namespace {

TEST(MeasuredCosts, TheLineThroughPointsOfALineIsThatLine) {
  const topology::Line line{30e-6, 8e-9};
  std::vector<CostPoint> points;
  for (const double bytes : {4e3, 64e3, 1e6, 64e6}) points.push_back({bytes, line(bytes)});
  const topology::Line found = line_through(points);
  EXPECT_NEAR(found.alpha, line.alpha, 1e-12);
  EXPECT_NEAR(found.beta, line.beta, 1e-18);
}

TEST(MeasuredCosts, NoMessageStartsForLessThanNothing) {
  const std::vector<CostPoint> points = {{1e3, 1e-6}, {1e6, 2e-3}, {1e7, 2.5e-2}};
  const topology::Line found = line_through(points);
  EXPECT_EQ(found.alpha, 0);
  EXPECT_GT(found.beta, 1e-9);
  EXPECT_LT(found.beta, 2.5e-9);
}

TEST(MeasuredCosts, NoLongerMessageTakesLessThanAShorterOne) {
  const std::vector<CostPoint> points = {{4e3, 3e-3}, {64e3, 1e-3}};
  const topology::Line found = line_through(points);
  EXPECT_EQ(found.alpha, 0);
  EXPECT_GT(found.beta, 0);
}

TEST(MeasuredCosts, OneRankHasNoneAndManyHaveTheSame) {
  const std::vector<std::string> codecs = {"fp16"};
  std::vector<Costs> found(3);
  for (const int ranks : {1, 3}) {
    test::run_ranks(ranks, [&](Job& job) {
      found[static_cast<std::size_t>(job.rank())] =
          measured_costs(job.world(), &job, codecs, 64 << 10);
    });
    EXPECT_EQ(found[0].links.workers, ranks);
    EXPECT_EQ(found[0].links.all_reduce.beta > 0, ranks > 1);
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0], found[2]);
}

}  // namespace
}  // namespace paceline::schedule
