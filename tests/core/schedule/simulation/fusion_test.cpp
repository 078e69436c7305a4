#include "paceline/core/schedule/simulation/fusion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "paceline/core/schedule/replay/replay_models.h"
#include "tests/core/schedule/example_costs.h"
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

struct Prices {
  double start = 0, byte = 1, encode = 0;
  double encoding(int way, double n) const { return way == 0 ? 0 : encode * n; }
  double transfer(int way, double n) const { return start + byte * n * (way == 0 ? 1 : .25); }
};

std::vector<CodedTransfer> ways_of(const Prices& prices) {
  std::vector<CodedTransfer> ways;
  for (const int way : {0, 1}) {
    ways.push_back({[=](double n) { return prices.encoding(way, n); },
                    [=](double n) { return prices.transfer(way, n); },
                    [=](double n) { return prices.encoding(way, n) / 2; }});
  }
  return ways;
}

// The bits of `picks` say which groups are coded.
double end_of(const Instance& one, const Prices& prices, const Cuts& cuts, unsigned picks,
              bool encodes_on_compute) {
  double encoder = 0, link = 0, decoder = 0, late = 0;
  for (std::size_t group = 0; group + 1 < cuts.size(); ++group) {
    const int way = static_cast<int>(picks >> group & 1u);
    double total = 0;
    for (int place = cuts[group]; place < cuts[group + 1]; ++place)
      total += one.bytes[static_cast<std::size_t>(place)];
    const double ready = one.ready[static_cast<std::size_t>(cuts[group + 1] - 1)];
    const double encode = prices.encoding(way, total);
    late += encode;
    double sendable = ready;
    if (encodes_on_compute) sendable = ready + late;
    else if (way == 1) sendable = encoder = std::max(encoder, ready) + encode;
    link = std::max(link, sendable) + prices.transfer(way, total);
    decoder = std::max(decoder, link) + encode / 2;
  }
  return decoder;
}

double best_of_all(const Instance& one, const Prices& prices, bool encodes_on_compute) {
  double best = std::numeric_limits<double>::infinity();
  for (const Cuts& cuts : all_cuts(static_cast<int>(one.bytes.size()))) {
    for (unsigned picks = 0; picks < 1u << (cuts.size() - 1); ++picks)
      best = std::min(best, end_of(one, prices, cuts, picks, encodes_on_compute));
  }
  return best;
}

Prices random_prices(SeededNumbers& numbers) {
  return {one_of(numbers, {.01, .1, .5}), one_of(numbers, {.5, 1, 2}),
          one_of(numbers, {.05, .3, 1.0})};
}

TEST(CodedFusion, IsTheBestOfAllGroupingsAndCodecsUpTo10Tensors) {
  SeededNumbers numbers(test::seed(7));
  for (int trial = 0; trial < 120; ++trial) {
    const Instance one = random_instance(numbers, trial < 4 ? 10 : 2 + trial % 6);
    const Prices prices = random_prices(numbers);
    for (const bool on_compute : {false, true}) {
      const CodedFusion fusion =
          coded_fusion(one.ready, one.bytes, ways_of(prices), {.encodes_on_compute = on_compute});
      EXPECT_NEAR(fusion.end, best_of_all(one, prices, on_compute), 1e-9) << "trial " << trial;
      Cuts cuts = {0};
      unsigned picks = 0;
      for (const CodedGroup& group : fusion.groups) {
        EXPECT_EQ(group.begin, cuts.back());
        picks |= static_cast<unsigned>(group.way) << (cuts.size() - 1);
        cuts.push_back(group.end);
      }
      EXPECT_NEAR(end_of(one, prices, cuts, picks, on_compute), fusion.end, 1e-9);
    }
  }
}

TEST(CodedFusion, WithOneWayThatNeedsNoEncodingIsTheExactFusion) {
  SeededNumbers numbers(test::seed(9));
  for (int trial = 0; trial < 100; ++trial) {
    const Instance one = random_instance(numbers, 1 + trial % 20);
    const Prices prices = random_prices(numbers);
    const std::vector<CodedTransfer> plain = {ways_of(prices).front()};
    EXPECT_NEAR(coded_fusion(one.ready, one.bytes, plain).end,
                exact_fusion(one.ready, one.bytes, plain[0].transfer).end, 1e-12);
  }
}

TEST(CodedFusion, WithFewStatesIsARealPlanThoughNotAlwaysTheBest) {
  SeededNumbers numbers(test::seed(11));
  for (int trial = 0; trial < 50; ++trial) {
    const Instance one = random_instance(numbers, 8);
    const Prices prices = random_prices(numbers);
    const double exact = coded_fusion(one.ready, one.bytes, ways_of(prices)).end;
    const CodedFusion capped = coded_fusion(one.ready, one.bytes, ways_of(prices), {.states = 2});
    EXPECT_GE(capped.end, exact - 1e-12);
    EXPECT_LE(capped.end, exact * 1.5);
    EXPECT_EQ(capped.groups.back().end, 8);
  }
}

}  // namespace

}  // namespace paceline::schedule
