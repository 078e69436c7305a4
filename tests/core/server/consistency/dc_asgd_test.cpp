// Delay compensation: its bits where it has nothing to do, and how near to a run without delay it is.
// Also covers paceline/core/server/consistency/dc_asgd.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/core/server/machine/quadratic_world.h"
#include "tests/core/server/machine/round_robin_world.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

std::vector<double> trained(const char* synchrony, int workers, int number, const char* rule) {
  QuadraticWorld world(synchrony, rule, Dtype::f32, workers, 2,
                       seed(3030000 + static_cast<std::uint64_t>(number)), kBadWeather, 12);
  EXPECT_TRUE(world.table.run());
  return world.table.held();
}

TEST(DcAsgd, HasTheBitsOfAspWithOneWorkerAndWithoutLambda) {
  for (const char* rule : {"sgd:rate=0.1,momentum=0.5", "adam:rate=0.1"}) {
    for (int number = 0; number < worlds_of(10); ++number) {
      for (const char* variant : {"constant", "adaptive"}) {
        const std::string name = fmt::format("dc_asgd:variant={}", variant);
        EXPECT_EQ(trained(name.c_str(), 1, number, rule), trained("asp", 1, number, rule));
        EXPECT_EQ(trained((name + ",lambda=0").c_str(), 4, number, rule),
                  trained("asp", 4, number, rule));
        EXPECT_NE(trained(name.c_str(), 4, number, rule), trained("asp", 4, number, rule));
      }
    }
  }
}

// Logistic regression on drawn samples, a batch of which belongs to each push, whoever makes it.
class Logistic {
 public:
  static constexpr std::size_t kWeights = 10, kSamples = 512, kBatch = 8;

  explicit Logistic(std::uint64_t of_seed) : seed_(of_seed), x_(kSamples), y_(kSamples) {
    SeededNumbers numbers(of_seed);
    const auto normal = [&] {
      return std::sqrt(-2 * std::log(1 - numbers.unit())) * std::cos(2 * M_PI * numbers.unit());
    };
    std::vector<double> weights(kWeights);
    for (double& one : weights) one = 2 * normal();
    for (std::size_t i = 0; i < kSamples; ++i) {
      double product = 0;
      for (const double weight : weights) product += weight * x_[i].emplace_back(normal());
      y_[i] = numbers.unit() < 1 / (1 + std::exp(-product)) ? 1 : 0;
    }
  }

  std::vector<double> gradient(std::int64_t push, std::span<const double> weights) const {
    SeededNumbers numbers(mix(seed_, static_cast<std::uint64_t>(push)));
    std::vector<double> gradient(kWeights);
    for (std::size_t i = 0; i < kBatch; ++i) {
      const auto sample = static_cast<std::size_t>(numbers.below(kSamples));
      double product = 0;
      for (std::size_t j = 0; j < kWeights; ++j) product += weights[j] * x_[sample][j];
      const double error = 1 / (1 + std::exp(-product)) - y_[sample];
      for (std::size_t j = 0; j < kWeights; ++j) gradient[j] += error * x_[sample][j] / kBatch;
    }
    return gradient;
  }

  // The mean distance of a run, push by push, from the one in which nothing is delayed.
  double distance(const std::string& synchrony, int workers, double eta) const {
    constexpr std::int64_t kPushes = 400;
    RoundRobinWorld world(synchrony, fmt::format("sgd:rate={}", eta * workers), workers,
                          kPushes / workers, std::vector<double>(kWeights),
                          [this](std::int64_t push, std::span<const double> weights) {
                            return gradient(push, weights);
                          });
    EXPECT_TRUE(world.run());
    std::vector<double> weights(kWeights);
    double sum = 0;
    const auto path = world.path();
    for (std::size_t push = 0; push < path.size(); ++push) {
      const auto change = gradient(static_cast<std::int64_t>(push), weights);
      double square = 0;
      for (std::size_t j = 0; j < kWeights; ++j) {
        weights[j] -= eta * change[j];
        square += (path[push][j] - weights[j]) * (path[push][j] - weights[j]);
      }
      sum += std::sqrt(square);
    }
    return sum / static_cast<double>(path.size());
  }

 private:
  std::uint64_t seed_;
  std::vector<std::vector<double>> x_;
  std::vector<double> y_;
};

TEST(DcAsgd, StaysNearerToARunWithoutDelayThanAsp) {
  for (int number = 0; number < (is_brief() ? 1 : 10); ++number) {
    const Logistic problem(seed(3040000 + static_cast<std::uint64_t>(number)));
    for (const int workers : {4, 8, 16}) {
      for (const double eta : {.1, .5}) {
        const double asp = problem.distance("asp", workers, eta);
        EXPECT_LT(problem.distance("dc_asgd:lambda=1", workers, eta), 0.95 * asp)
            << workers << " workers, eta " << eta << ", seed " << number;
        EXPECT_LT(problem.distance("dc_asgd:variant=adaptive,lambda=0.5", workers, eta), 0.8 * asp)
            << workers << " workers, eta " << eta << ", seed " << number;
      }
    }
  }
}

}  // namespace
}  // namespace paceline::test
