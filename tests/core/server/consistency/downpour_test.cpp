// Downpour SGD in virtual time: where it is SGD, and that nothing that was accrued is lost.
// Also covers paceline/core/server/machine/downpour_course.cpp.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "paceline/core/server/machine/downpour_course.h"
#include "tests/core/server/machine/downpour_world.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

constexpr double kRidge = 0.1;

// Ridge regression on drawn samples, one of which belongs to each step of a worker.
class Ridge {
 public:
  static constexpr std::size_t kWeights = 12, kSamples = 200;

  explicit Ridge(std::uint64_t of_seed) : seed_(of_seed), x_(kSamples), y_(kSamples) {
    SeededNumbers numbers(of_seed);
    for (std::size_t i = 0; i < kSamples; ++i) {
      for (std::size_t j = 0; j < kWeights; ++j) x_[i].push_back(2 * numbers.unit() - 1);
      y_[i] = 2 * numbers.unit() - 1 + x_[i][0];
    }
  }

  std::vector<double> gradient(int worker, std::int64_t step, std::span<const double> w) const {
    SeededNumbers numbers(
        mix(mix(seed_, static_cast<std::uint64_t>(worker)), static_cast<std::uint64_t>(step)));
    return gradient_of(static_cast<std::size_t>(numbers.below(kSamples)), w);
  }
  // It is the gradient of the mean loss of all samples.
  std::vector<double> whole_gradient(std::span<const double> w) const {
    std::vector<double> sum(kWeights);
    for (std::size_t i = 0; i < kSamples; ++i) {
      const auto one = gradient_of(i, w);
      for (std::size_t j = 0; j < kWeights; ++j) sum[j] += one[j] / kSamples;
    }
    return sum;
  }
  std::vector<double> optimum() const {
    std::vector<double> w(kWeights);
    for (int step = 0; step < 3000; ++step) {
      const auto gradient = whole_gradient(w);
      for (std::size_t j = 0; j < kWeights; ++j) w[j] -= 0.5 * gradient[j];
    }
    return w;
  }

  DownpourTraining training(const server::DownpourPlan& plan, std::int64_t steps,
                            double local_rate) const {
    return {.plan = plan,
            .local_rate = local_rate,
            .steps = steps,
            .first = std::vector<double>(kWeights, 0.5),
            .gradient = [this](int worker, std::int64_t step,
                               std::span<const double> w) { return gradient(worker, step, w); },
            .computes = drawn_times(seed_)};
  }

  // Plain SGD on the samples of worker 0, whose gradients are taken at the values of `delay` steps
  // ago.
  std::vector<double> by_sgd(std::int64_t steps, double rate, std::int64_t delay = 0) const {
    std::vector<std::vector<double>> path = {std::vector<double>(kWeights, 0.5)};
    for (std::int64_t step = 0; step < steps; ++step) {
      const auto at = static_cast<std::size_t>(std::max<std::int64_t>(0, step - delay));
      const auto change = gradient(0, step, path[at]);
      std::vector<double> next = path.back();
      for (std::size_t j = 0; j < kWeights; ++j) next[j] -= rate * change[j];
      path.push_back(std::move(next));
    }
    return path.back();
  }

 private:
  std::vector<double> gradient_of(std::size_t sample, std::span<const double> w) const {
    double error = -y_[sample];
    for (std::size_t j = 0; j < kWeights; ++j) error += x_[sample][j] * w[j];
    std::vector<double> gradient;
    for (std::size_t j = 0; j < kWeights; ++j)
      gradient.push_back(error * x_[sample][j] + kRidge * w[j]);
    return gradient;
  }

  std::uint64_t seed_;
  std::vector<std::vector<double>> x_;
  std::vector<double> y_;
};

double length_of_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double square = 0;
  for (std::size_t i = 0; i < a.size(); ++i) square += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(square);
}
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  return length_of_difference(a, b) / length_of_difference(b, std::vector<double>(b.size()));
}

Ridge problem_of(int number) {
  return Ridge(seed(3080000 + static_cast<std::uint64_t>(number)));
}

// One worker by this plan, on a bad network.
std::vector<double> alone(const Ridge& problem, const server::DownpourPlan& plan,
                          std::int64_t steps, double local_rate, int number) {
  DownpourWorld world(problem.training(plan, steps, local_rate), "sgd:rate=0.1", 1, 2, kBadWeather,
                      seed(3090000 + static_cast<std::uint64_t>(number)));
  EXPECT_TRUE(world.run()) << "no progress; seed " << number;
  return world.values();
}

TEST(Downpour, OfOneWorkerThatPushesAndFetchesInEachStepIsSgdToTheBit) {
  for (int number = 0; number < worlds_of(10); ++number) {
    const Ridge problem = problem_of(number);
    EXPECT_EQ(alone(problem, {.push = 1, .fetch = 1}, 60, 0.1, number), problem.by_sgd(60, 0.1));
    EXPECT_EQ(alone(problem, {.push = 1, .fetch = 1}, 60, 0, number), problem.by_sgd(60, 0.1))
        << "its own steps are overwritten";
  }
}

TEST(Downpour, OfOneWorkerIsSgdOnlyIfItStepsBetweenItsFetches) {
  for (int number = 0; number < worlds_of(10); ++number) {
    const Ridge problem = problem_of(number);
    const auto sgd = problem.by_sgd(300, 0.1);
    EXPECT_LT(distance(alone(problem, {.push = 5, .fetch = 5}, 300, 0.1, number), sgd), 1e-13);
    EXPECT_GT(distance(alone(problem, {.push = 5, .fetch = 5}, 300, 0, number), sgd), 1e-3);
  }
}

TEST(Downpour, OfOneWorkerThatFetchesBehindEachStepIsSgdWithADelayOfOne) {
  for (int number = 0; number < worlds_of(10); ++number) {
    const Ridge problem = problem_of(number);
    const server::DownpourPlan plan = {.push = 1, .fetch = 1, .is_blocking = false};
    const auto found = alone(problem, plan, 60, 0.1, number);
    EXPECT_EQ(found, problem.by_sgd(60, 0.1, 1));
    EXPECT_NE(found, problem.by_sgd(60, 0.1));
  }
}

// Gradients are 1 in an element of each worker and step, so that the values tell which ones are in
// them, and how often. Steps are no multiple of a push. Those of the warm start count whole, others
// by the third that each worker's do.
TEST(Downpour, AppliesEachGradientOnceWhateverPushesAndFetchesAre) {
  constexpr std::int64_t kSteps = 17, kWorkers = 3;
  const auto place = [](int worker, std::int64_t step) {
    return static_cast<std::size_t>(worker * kSteps + step);
  };
  for (int number = 0; number < worlds_of(60); ++number) {
    SeededNumbers numbers(seed(3100000 + static_cast<std::uint64_t>(number)));
    const server::DownpourPlan plan = {.push = 1 + static_cast<std::int64_t>(numbers.below(6)),
                                       .fetch = 1 + static_cast<std::int64_t>(numbers.below(6)),
                                       .is_blocking = numbers.below(2) == 0,
                                       .warm_start = static_cast<std::int64_t>(numbers.below(9))};
    const DownpourTraining training = {
        .plan = plan,
        .local_rate = 0.5,
        .steps = kSteps,
        .first = std::vector<double>(kSteps * kWorkers),
        .gradient =
            [&](int worker, std::int64_t step, std::span<const double> values) {
              std::vector<double> gradient(values.size());
              gradient[place(worker, step)] = 1;
              return gradient;
            },
        .computes = drawn_times(numbers.next())};
    DownpourWorld world(training, "sgd:rate=3", kWorkers, 2, kBadWeather, numbers.next());
    ASSERT_TRUE(world.run()) << "no progress; seed " << number;
    std::vector<double> expected(kSteps * kWorkers, -1);
    std::fill_n(expected.begin(), plan.warm_start, -3);
    for (const auto& [member, worker] : world.workers)
      EXPECT_EQ(worker->values(), expected)
          << "worker " << member << ", seed " << number << ", push " << plan.push << ", fetch "
          << plan.fetch << ", warm start " << plan.warm_start;
  }
}

TEST(Downpour, BeginsWithOneWorkerAloneWhoseValuesTheOthersBeginWith) {
  for (const bool is_blocking : {true, false}) {
    for (int number = 0; number < worlds_of(20); ++number) {
      const Ridge problem = problem_of(number);
      const server::DownpourPlan plan = {
          .push = 3, .fetch = 2, .is_blocking = is_blocking, .warm_start = 7};
      DownpourWorld world(problem.training(plan, 20, 0.1), "sgd:rate=0.1", 3, 2, kBadWeather,
                          seed(3110000 + static_cast<std::uint64_t>(number)));
      ASSERT_TRUE(world.run()) << "no progress; seed " << number;
      const auto warm = alone(problem, plan, 7, 0.1, number);
      int firsts = 0;
      for (std::size_t i = 0; i < world.training.begun.size(); ++i) {
        const auto& one = world.training.begun[i];
        if (i < 7) {
          EXPECT_EQ(one.worker, 0) << "seed " << number;
        }
        if (one.step != (one.worker == 0 ? 7 : 0)) continue;
        EXPECT_LT(distance(one.values, warm), 1e-13) << "worker " << one.worker;
        ++firsts;
      }
      EXPECT_EQ(firsts, 3);
    }
  }
}

// Each step has one sample, so that the noise ends a part of the way before the optimum.
TEST(Downpour, OfSeveralWorkersApproachesTheOptimumByItsAdagradToo) {
  const Ridge problem = problem_of(0);
  const auto optimum = problem.optimum();
  const double whole_way = length_of_difference(std::vector<double>(Ridge::kWeights, 0.5), optimum);
  for (const bool is_blocking : {true, false}) {
    for (const char* rule : {"sgd:rate=0.08", "adagrad:rate=0.1"}) {
      const server::DownpourPlan plan = {
          .push = 2, .fetch = 3, .is_blocking = is_blocking, .warm_start = 20};
      DownpourWorld world(problem.training(plan, 2000, 0.02), rule, 4, 2, kBadWeather,
                          seed(3120000));
      ASSERT_TRUE(world.run());
      EXPECT_LT(length_of_difference(world.values(), optimum), 0.2 * whole_way)
          << rule << is_blocking;
    }
  }
}

TEST(Downpour, IsPlannedByItsSettings) {
  const auto plan = [](std::string_view text) {
    return server::downpour_plan(server::parse_consistency(text).value().settings);
  };
  const server::DownpourPlan published = plan("downpour");
  EXPECT_EQ(published.push, 5);
  EXPECT_EQ(published.fetch, 5);
  EXPECT_FALSE(published.is_blocking);
  EXPECT_EQ(published.warm_start, 100);
  EXPECT_TRUE(plan("downpour:fetching=blocking").is_blocking);
  EXPECT_EQ(plan("downpour:push=3,fetch=7,warm_start=0").fetch, 7);
  for (const auto& [text, named] :
       {std::pair{"downpour:push=0", "push"}, std::pair{"downpour:fetch=0", "fetch"},
        std::pair{"downpour:fetching=lazily", "asynchronous"},
        std::pair{"downpour:warm_start=-1", "warm_start"},
        std::pair{"downpour:local_rate=-0.1", "local_rate"}}) {
    const auto refused = server::parse_consistency(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_THAT(refused.error().what, ::testing::HasSubstr(named)) << text;
  }
}

}  // namespace
}  // namespace paceline::test
