// Elastic averaging by a centre on servers: nothing is lost between it and the workers, and how far
// it is stable.
// Also covers paceline/core/server/consistency/elastic.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/core/server/machine/chain_world.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

// Workers hold values of their own, and descend x^2 / 2 by `eta` between exchanges.
struct ElasticWorld {
  std::map<int, std::vector<double>> own;
  TableTraining training;
  VirtualTable table;

  ElasticWorld(double alpha, double eta, int workers, std::int64_t exchanges,
               std::vector<double> centre, const machine::NetworkFaults& weather,
               std::uint64_t of_seed, std::function<machine::Time(int, std::int64_t)> computes,
               int replicas = 1)
      : training{.steps = exchanges,
                 .first = std::move(centre),
                 .update =
                     [this, eta](int worker, std::int64_t, std::span<const double> difference) {
                       take(worker, difference, eta);
                       return own.at(worker);
                     },
                 .computes = std::move(computes)},
        table({.name = "centre",
               .elements = training.first.size(),
               .dtype = Dtype::f64,
               .synchrony = fmt::format("elastic:alpha={}", alpha),
               .rule = "add",
               .part_bytes = 4 * sizeof(double),
               .replicas = replicas},
              workers, 1 + replicas, training, weather, of_seed) {}

  // The gradient is that of the values which were pushed; before the first push there is none.
  void take(int worker, std::span<const double> difference, double eta) {
    std::vector<double>& values = own.at(worker);
    const double rate = has_begun_[worker] ? eta : 0;
    has_begun_[worker] = true;
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = values[i] - rate * values[i] - difference[i];
  }
  // The last differences, which no push has followed.
  void take_last(double eta) {
    for (const TableRead& read : training.reads)
      if (read.clock == training.steps) take(read.worker, read.values, eta);
  }

 private:
  std::map<int, bool> has_begun_;
};

std::vector<double> drawn_values(SeededNumbers& numbers) {
  std::vector<double> values(11);
  for (double& one : values) one = numbers.unit() - 0.5;
  return values;
}

// The centre and the values of all workers together.
std::vector<double> sum_of_all(const ElasticWorld& world, std::vector<double> sum) {
  for (const auto& [worker, values] : world.own)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  return sum;
}

void expect_constant_sum(const ElasticWorld& world, const std::vector<double>& before, int number) {
  const std::vector<double> after = sum_of_all(world, world.table.held());
  for (std::size_t i = 0; i < after.size(); ++i)
    EXPECT_NEAR(after[i], before[i], 1e-15 * 8 * static_cast<double>(world.own.size()))
        << "seed " << number;
}

TEST(Elastic, CentreAndWorkersTogetherAreConstantWhereNobodyDescends) {
  for (int number = 0; number < worlds_of(40); ++number) {
    SeededNumbers numbers(seed(3050000 + static_cast<std::uint64_t>(number)));
    const int workers = 1 + number % 4;
    const std::vector<double> first = drawn_values(numbers);
    ElasticWorld world(0.9 / workers, 0, workers, 8, first, kBadWeather, numbers.next(),
                       drawn_times(numbers.next()));
    for (int worker = 0; worker < workers; ++worker) world.own[worker] = drawn_values(numbers);
    const std::vector<double> before = sum_of_all(world, first);
    ASSERT_TRUE(world.table.run()) << "no progress; seed " << number;
    world.take_last(0);
    EXPECT_NE(world.table.held(), first) << "the centre moves";
    expect_constant_sum(world, before, number);
  }
}

// A difference that a worker has taken off is in the centre, whichever servers end.
TEST(Elastic, NothingIsLostBetweenCentreAndWorkersWhereServersEnd) {
  for (int number = 0; number < worlds_of(60); ++number) {
    SeededNumbers numbers(seed(3070000 + static_cast<std::uint64_t>(number)));
    const std::vector<double> first = drawn_values(numbers);
    ElasticWorld world(0.3, 0, 3, 8, first, kBadWeather, numbers.next(),
                       drawn_times(numbers.next()), 2 + number % 2);
    plan_troubles(world.table, numbers, {.kills = 3, .moves = 1, .suspicions = number % 2});
    for (int worker = 0; worker < 3; ++worker) world.own[worker] = drawn_values(numbers);
    const std::vector<double> before = sum_of_all(world, first);
    ASSERT_TRUE(world.table.run(20s)) << "no progress; seed " << number;
    EXPECT_EQ(complaint_of_chains(world.table), "") << "seed " << number;
    world.take_last(0);
    expect_constant_sum(world, before, number);
  }
}

TEST(Elastic, WithoutAlphaWorkersDescendByThemselves) {
  ElasticWorld world(0, 0.3, 3, 8, {1, 2}, kBadWeather, seed(3060000), drawn_times(7));
  for (int worker = 0; worker < 3; ++worker) world.own[worker] = {1.0 + worker, -2};
  ASSERT_TRUE(world.table.run());
  world.take_last(0.3);
  EXPECT_EQ(world.table.held(), (std::vector<double>{1, 2}));
  for (int worker = 0; worker < 3; ++worker) {
    std::vector<double> alone = {1.0 + worker, -2};
    for (int step = 0; step < 8; ++step)
      for (double& one : alone) one = one - 0.3 * one;
    EXPECT_EQ(world.own.at(worker), alone);
  }
}

// In round robin, with the values of all and of the centre after each exchange.
double largest_at_end(int workers, double eta, double alpha, std::int64_t rounds) {
  ElasticWorld world(alpha, eta, workers, rounds, {0.5}, {.least_delay = 10us, .most_delay = 10us},
                     1, [=](int worker, std::int64_t clock) {
                       return machine::Time(1ms) * (clock == 0 ? worker + 1 : workers);
                     });
  world.training.keeps_reads = false;
  for (int worker = 0; worker < workers; ++worker) world.own[worker] = {1.0 - 0.4 * worker};
  EXPECT_TRUE(world.table.run(10000s));
  double largest = std::abs(world.table.held()[0]);
  for (const auto& [worker, values] : world.own) largest = std::max(largest, std::abs(values[0]));
  return largest;
}

double largest_stable_alpha(double eta) {
  return (4 - 2 * eta) / (4 - eta);
}

TEST(Elastic, IsStableInRoundRobinUpToItsLimit) {
  const int rates = is_nightly() ? 20 : is_brief() ? 3 : 7;
  for (const int workers : {1, 2, 4, 8}) {
    for (int i = 0; i < rates; ++i) {
      const double eta = 0.05 + 1.9 * i / (rates - 1);
      for (const double part : {.2, .5, .9, .99})
        EXPECT_LT(largest_at_end(workers, eta, part * largest_stable_alpha(eta), 80), 10)
            << workers << " workers, eta " << eta << ", " << part << " of the limit";
    }
  }
}

TEST(Elastic, WithOneWorkerItDivergesBeyondThatLimit) {
  for (const double eta : {.05, .5, 1., 1.5})
    EXPECT_GT(largest_at_end(1, eta, 1.02 * largest_stable_alpha(eta), 1500), 100) << eta;
}

}  // namespace
}  // namespace paceline::test
