#include "paceline/core/schedule/adapt/measured_costs.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "paceline/core/server/server.h"
#include "tests/support/local_world.h"
#include "tests/support/nightly.h"

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
          measured_costs(job.world(), codecs, {.longest = test::is_brief() ? 4U << 10 : 64U << 10});
    });
    EXPECT_EQ(found[0].links.workers, ranks);
    EXPECT_EQ(found[0].links.all_reduce.beta > 0, ranks > 1);
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0], found[2]);
}

// In an all_gather of n bytes from each, each rank receives half of the bytes that it receives and
// sends on in an all_reduce of as many bytes as all ranks have together.
TEST(MeasuredCosts, ServersOfTheSameHostAreMeasuredAsSuchAndAllRanksHaveTheSame) {
  std::vector<Costs> found(2);
  test::run_ranks(2, {.servers = 1}, [&](Job& job) {
    if (job.role() == Role::server) return serve(job);
    found[static_cast<std::size_t>(job.rank())] =
        measured_costs(job.world(), {}, {.longest = 64U << 10}, &job);
  });
  const auto server = found[0].links.server;
  ASSERT_TRUE(server.has_value());
  EXPECT_FALSE(server->is_duplex);
  EXPECT_GT(server->push.beta, 0);
  EXPECT_EQ(server->push.beta, server->pull.beta);
  EXPECT_EQ(found[0], found[1]);
}

TEST(MeasuredCosts, AnAllGatherTakesHalfTheTimeOfTheAllReduceOfAllItsBytes) {
  constexpr int kRanks = 3;
  test::run_ranks(kRanks, [&](Job& job) {
    const LinkCosts links = measured_costs(job.world(), {}, {.longest = 64 << 10}).links;
    ASSERT_GT(links.all_reduce.beta, 0);
    for (const double bytes : {4e3, 1e6})
      EXPECT_NEAR(links.all_gather(bytes) / links.all_reduce(kRanks * bytes), 0.5, 1e-12);
  });
}

// PowerSGD of rank 1 turns n rows of m elements, n m in all, into n + m.
TEST(MeasuredCosts, ACodecOfMatricesIsMeasuredOnRowsAsTheModelHasThem) {
  constexpr std::size_t kSide = 256;
  const std::size_t bytes = kSide * kSide * sizeof(float);
  const Model model{.name = "one", .tensors = {{.bytes = bytes, .rows = kSide}}};
  const Streamed streamed = streamed_like({&model, 1});
  EXPECT_EQ(streamed.columns, kSide);
  EXPECT_EQ(streamed.longest, bytes);
  test::run_ranks(2, [&](Job& job) {
    const std::vector<std::string> codecs = {"power_sgd:rank=1"};
    const Costs costs = measured_costs(job.world(), codecs, streamed);
    EXPECT_DOUBLE_EQ(costs.codec("power_sgd:rank=1").ratio, 2.0 / static_cast<double>(kSide));
  });
}

TEST(MeasuredCosts, OfAMenuEachOfferHasItsOwn) {
  // With two ranks an all_gather takes as long as an all_reduce.
  test::run_ranks(test::is_brief() ? 2 : 3, [&](Job& job) {
    const std::vector<std::string> codecs = {"top_k:ratio=0.5/0.01"};
    const Costs costs =
        measured_costs(job.world(), codecs, {.longest = test::is_brief() ? 16U << 10 : 64U << 10});
    const CodecCost& menu = costs.codec(codecs[0]);
    ASSERT_EQ(menu.offers.size(), 3u);
    EXPECT_NEAR(menu.offers[0].ratio, 2 * .5, .01);
    EXPECT_NEAR(menu.offers[1].ratio, 2 * .01, .01);
    EXPECT_EQ(menu.ratio, menu.offers[0].ratio);
    EXPECT_FALSE(menu.is_linear);
    // Whole, on an all_gather's line it takes as long as an all_reduce.
    EXPECT_DOUBLE_EQ(menu.offers[2].ratio * costs.links.all_gather.beta,
                     costs.links.all_reduce.beta);
    EXPECT_EQ(menu.offers[2].encode, 0);
  });
}

}  // namespace
}  // namespace paceline::schedule
