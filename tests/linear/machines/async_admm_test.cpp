#include "paceline/linear/machines/async_admm.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/linear/linear_problems.h"
#include "tests/linear/machines/admm_workers.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::linear {
namespace {

using namespace std::chrono_literals;
using machine::NetworkFaults;
using machine::Time;

constexpr NetworkFaults kQuick = {.least_delay = 10us, .most_delay = 100us};

double distance(std::span<const double> a, std::span<const double> b) {
  double squares = 0;
  for (std::size_t j = 0; j < a.size(); ++j) squares += (a[j] - b[j]) * (a[j] - b[j]);
  return std::sqrt(squares);
}

// --- quadratics: f_r(x) = sum_j curvature_rj / 2 (x_j - b_rj)^2 ----------------------------------

test::AdmmProblem quadratics(std::size_t workers, std::size_t width, SeededNumbers& numbers) {
  std::vector<std::vector<double>> curvatures(workers), minima(workers);
  for (std::size_t r = 0; r < workers; ++r) {
    for (std::size_t j = 0; j < width; ++j) {
      curvatures[r].push_back(.1 + numbers.unit());
      minima[r].push_back(numbers.unit() - .5);
    }
  }
  constexpr double kPenalty = .5, kL2 = .01;
  return {.workers = workers,
          .width = width,
          .solution =
              [=](std::size_t r, const std::vector<double>& centre) {
                std::vector<double> x(width);
                for (std::size_t j = 0; j < width; ++j)
                  x[j] = (curvatures[r][j] * minima[r][j] + kPenalty * centre[j]) /
                         (curvatures[r][j] + kPenalty);
                return x;
              },
          .consensus =
              [=](std::span<double> sum) {
                for (double& one : sum)
                  one = kPenalty * one / (kL2 + static_cast<double>(workers) * kPenalty);
              }};
}

struct DrawnWorld {
  explicit DrawnWorld(std::uint64_t seed) : numbers(seed) {
    problem = quadratics(1 + numbers.below(7), 1 + numbers.below(4), numbers);
    pace = {.barrier = 1 + static_cast<int>(numbers.below(problem.workers)),
            .delay = 1 + static_cast<int>(numbers.below(6))};
    weather.overtaking = numbers.below(2) == 0;
    for (std::size_t r = 0; r < problem.workers; ++r)
      times.push_back(Time(static_cast<Time::rep>(std::pow(10., 4 + 3 * numbers.unit()))));
  }
  test::AdmmWorld open(std::int64_t updates, int rounds) {
    return {problem, pace, updates, rounds, times, weather, numbers.next()};
  }

  SeededNumbers numbers;
  test::AdmmProblem problem;
  AdmmPace pace;
  NetworkFaults weather = {.least_delay = 10us, .most_delay = 1ms};
  std::vector<Time> times;  // from 10 us to 10 ms for a solution
};

TEST(AsyncAdmm, EndsEveryRoundOnAllRanksWithOneVectorAndNobodyIsOlderThanTheDelay) {
  const int seeds = test::is_nightly() ? 10000 : test::is_brief() ? 100 : 1000;
  for (int number = 0; number < seeds; ++number) {
    DrawnWorld drawn(test::seed(2610000 + static_cast<std::uint64_t>(number)));
    constexpr int kRounds = 4;
    const auto updates = 1 + static_cast<std::int64_t>(drawn.numbers.below(9));
    test::AdmmWorld world = drawn.open(updates, kRounds);
    world.network.run();
    EXPECT_LE(world.workers[0]->most_age, drawn.pace.delay - 1);
    EXPECT_EQ(world.workers[0]->admm.master()->updates(), kRounds * updates);
    int solutions = 0;
    for (const auto& worker : world.workers) {
      ASSERT_TRUE(worker->is_done()) << "it hears of each end; seed " << number;
      ASSERT_EQ(worker->ends, world.workers[0]->ends) << "seed " << number;
      solutions += worker->solutions;
    }
    EXPECT_GE(solutions, kRounds * updates * drawn.pace.barrier);
    ASSERT_FALSE(HasFailure()) << "seed " << number;
  }
}

TEST(AsyncAdmm, WithABarrierOfAllOrADelayOfOneItHasTheBitsOfAdmm) {
  const int seeds = test::is_nightly() ? 10000 : test::is_brief() ? 100 : 1000;
  for (int number = 0; number < seeds; ++number) {
    DrawnWorld drawn(test::seed(2620000 + static_cast<std::uint64_t>(number)));
    if (number % 2 == 0) {
      drawn.pace.barrier = static_cast<int>(drawn.problem.workers + drawn.numbers.below(2));
    } else {
      drawn.pace.delay = 1;
    }
    constexpr int kRounds = 3, kUpdates = 4;
    test::AdmmWorld world = drawn.open(kUpdates, kRounds);
    world.network.run();
    const auto serial = test::serial_admm(drawn.problem, kRounds * kUpdates);
    for (int round = 0; round < kRounds; ++round)
      ASSERT_EQ(world.workers.back()->ends.at(static_cast<std::size_t>(round)),
                serial[static_cast<std::size_t>((round + 1) * kUpdates - 1)])
          << "seed " << number;
  }
}

TEST(AsyncAdmm, WhicheverRankIsLostNobodyWaitsAndAllNameIt) {
  const int seeds = test::is_nightly() ? 10000 : test::is_brief() ? 100 : 1000;
  int lost = 0;
  for (int number = 0; number < seeds; ++number) {
    DrawnWorld drawn(test::seed(2630000 + static_cast<std::uint64_t>(number)));
    test::AdmmWorld world = drawn.open(5, 6);
    const auto victim = drawn.numbers.below(drawn.problem.workers);
    world.network.kill(static_cast<int>(victim),
                       Time(static_cast<Time::rep>(drawn.numbers.unit() * 2e7)));
    world.network.run();
    for (std::size_t r = 0; r < world.workers.size(); ++r) {
      const test::AdmmWorker& worker = *world.workers[r];
      if (r == victim || worker.is_done()) continue;
      ASSERT_EQ(worker.admm.lost(), static_cast<int>(victim)) << "seed " << number;
      ++lost;
    }
  }
  EXPECT_GT(lost, seeds / 2);
}

TEST(AsyncAdmm, AVectorOfAnotherWidthEndsTheRunForItsRank) {
  AsyncAdmm master(0, 3, 2, {}, 1, [](std::span<double>) {});
  std::ignore = master.on_message(0, AsyncAdmm::begin(), {});
  const auto actions =
      master.on_message(2, {.kind = AsyncAdmm::kArrive, .payload = std::vector<std::byte>(24)}, {});
  EXPECT_EQ(actions.size(), 2u) << "both others hear of it";
  EXPECT_EQ(master.lost(), 2);
}

// --- T1: ridge regression, 200 samples of 20 features, split among 8 workers ---------------------

using Matrix = std::vector<std::vector<double>>;

struct Ridge {
  static constexpr std::size_t kWorkers = 8, kSamples = 200, kWidth = 20;
  static constexpr double kL2 = .01, kPenalty = .05;
  std::vector<Matrix> grams =
      std::vector<Matrix>(kWorkers, Matrix(kWidth, std::vector<double>(kWidth)));
  Matrix products = Matrix(kWorkers, std::vector<double>(kWidth));
  std::vector<double> optimum;

  explicit Ridge(std::uint64_t seed) {
    SeededNumbers numbers(seed);
    const auto even = [&] { return 2 * numbers.unit() - 1; };
    std::vector<double> truth(kWidth);
    for (double& one : truth) one = 1.7 * even();
    for (std::size_t i = 0; i < kSamples; ++i) {
      std::vector<double> x(kWidth);
      for (double& one : x) one = even();
      const double length = distance(x, std::vector<double>(kWidth));
      double y = .17 * even();
      for (std::size_t j = 0; j < kWidth; ++j) y += (x[j] /= length) * truth[j];
      const std::size_t worker = i * kWorkers / kSamples;
      for (std::size_t j = 0; j < kWidth; ++j) {
        products[worker][j] += x[j] * y / kSamples;
        for (std::size_t k = 0; k < kWidth; ++k) grams[worker][j][k] += x[j] * x[k] / kSamples;
      }
    }
    Matrix gram(kWidth, std::vector<double>(kWidth));
    std::vector<double> product(kWidth);
    for (std::size_t r = 0; r < kWorkers; ++r) {
      for (std::size_t j = 0; j < kWidth; ++j) {
        product[j] += products[r][j];
        for (std::size_t k = 0; k < kWidth; ++k) gram[j][k] += grams[r][j][k];
      }
    }
    for (std::size_t j = 0; j < kWidth; ++j) gram[j][j] += kL2;
    optimum = test::solution_of(gram, product);
  }

  test::AdmmProblem problem() const {
    return {.workers = kWorkers,
            .width = kWidth,
            .solution =
                [this](std::size_t r, const std::vector<double>& centre) {
                  Matrix a = grams[r];
                  std::vector<double> b = products[r];
                  for (std::size_t j = 0; j < kWidth; ++j) {
                    a[j][j] += kPenalty;
                    b[j] += kPenalty * centre[j];
                  }
                  return test::solution_of(std::move(a), std::move(b));
                },
            .consensus =
                [](std::span<double> sum) {
                  for (double& one : sum) one = kPenalty * one / (kL2 + kWorkers * kPenalty);
                }};
  }
  double error_of(std::span<const double> z) const {
    return distance(z, optimum) / distance(optimum, std::vector<double>(kWidth));
  }
};

// One worker takes about 20 ms for a solution, the others 1 to 5 ms.
std::vector<Time> times_with_a_slow_worker(std::uint64_t seed) {
  SeededNumbers numbers(seed);
  std::vector<Time> times = {20ms};
  while (times.size() < Ridge::kWorkers)
    times.push_back(Time(static_cast<Time::rep>(1e6 / (.2 + .8 * numbers.unit()))));
  return times;
}

TEST(AsyncAdmm, WithASlowWorkerItsErrorAtEqualTimeIsBelowHalfOfThatOfAdmm) {
  const std::uint64_t seeds = test::is_brief() ? 2 : 10;
  for (std::uint64_t number = 0; number < seeds; ++number) {
    const std::uint64_t seed = test::seed(2640000 + number);
    const Ridge ridge(seed);
    const test::AdmmProblem problem = ridge.problem();
    const auto error_after_800_ms = [&](const AdmmPace& pace) {
      test::AdmmWorld world(problem, pace, 1'000'000, 1, times_with_a_slow_worker(seed), kQuick,
                            seed);
      world.network.run(800ms);  // 40 iterations of ADMM
      return ridge.error_of(world.workers[0]->admm.master()->common());
    };
    const double synchronous = error_after_800_ms({.barrier = 8, .delay = 5});
    const double asynchronous = error_after_800_ms({.barrier = 2, .delay = 5});
    EXPECT_LT(asynchronous, synchronous / 2) << "seed " << number;
    EXPECT_LT(synchronous, .5) << "it comes nearer, too; seed " << number;
  }
}

TEST(AsyncAdmm, ConvergesToTheOptimum) {
  const Ridge ridge(test::seed(2650000));
  const test::AdmmProblem problem = ridge.problem();
  test::AdmmWorld world(problem, {.barrier = 2, .delay = 5}, 1000, 1, times_with_a_slow_worker(1),
                        kQuick, 1);
  world.network.run();
  EXPECT_LT(ridge.error_of(world.workers[0]->ends.at(0)), 1e-6);
}

}  // namespace
}  // namespace paceline::linear
