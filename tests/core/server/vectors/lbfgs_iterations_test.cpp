// Full-batch L-BFGS on servers, in virtual time.
// Also covers paceline/core/server/vectors/lbfgs_coordinator.cpp,
// paceline/core/server/vectors/lbfgs_course.cpp and
// paceline/core/server/vectors/portion_worker.cpp.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/core/server/vectors/virtual_lbfgs.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

using test::LbfgsPath;
using test::LbfgsWorker;
using test::LogisticProblem;
using test::LossAndGradient;
using test::PortionTraining;
using test::SerialLbfgs;
using test::Vector;
using test::VirtualLbfgs;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using namespace std::chrono_literals;

constexpr std::size_t kParameters = 23;
constexpr std::int64_t kPortion = 7;

VectorShape shape_for(const LogisticProblem& problem, int history = 10) {
  return {.name = "sandblaster",
          .elements = problem.dimension,
          .dtype = Dtype::f64,
          .samples = problem.count(),
          .portion = kPortion,
          .history = history};
}

PortionTraining training_of(const LogisticProblem& problem, int iterations = 10) {
  return {.sums = [&problem](std::span<const double> w, std::int64_t begin,
                             std::int64_t end) { return problem.sums(w, begin, end); },
          .iterations = iterations};
}

// The mean over all samples, added up portion after portion.
LossAndGradient mean_by_portions(const LogisticProblem& problem, const Vector& w) {
  LossAndGradient mean{0, Vector(problem.dimension)};
  for (std::int64_t begin = 0; begin < problem.count(); begin += kPortion) {
    const auto part = problem.sums(w, begin, std::min(begin + kPortion, problem.count()));
    mean.loss += part.loss;
    for (std::size_t i = 0; i < w.size(); ++i) mean.gradient[i] += part.gradient[i];
  }
  const auto count = static_cast<double>(problem.count());
  mean.loss /= count;
  for (double& one : mean.gradient) one *= 1 / count;
  return mean;
}

double product(const double* left, const double* right, std::size_t count) {
  return quasi_newton::inner_product(left, right, count);
}

double absolute_sum(std::span<const double> vector) {
  double sum = 0;
  for (const double one : vector) sum += std::fabs(one);
  return sum;
}

// One process that sums as `servers` servers do.
SerialLbfgs serial_by_shards(const LogisticProblem& problem, int servers, std::size_t history) {
  VectorShape shape = shape_for(problem);
  shape.members = TableMembers::of_servers(1, servers);
  const auto sum_by_shards = [shape](const auto& of_shard) {
    double sum = 0;
    for (std::size_t server = 0; server < shape.servers(); ++server) {
      const auto [begin, count] = shape.shard(server);
      sum += of_shard(begin, count);
    }
    return sum;
  };
  const auto dot = [=](const Vector& a, const Vector& b) {
    return sum_by_shards([&](std::size_t begin, std::size_t count) {
      return product(a.data() + begin, b.data() + begin, count);
    });
  };
  const auto sum_abs = [=](const Vector& a) {
    return sum_by_shards([&](std::size_t begin, std::size_t count) {
      return absolute_sum(std::span(a).subspan(begin, count));
    });
  };
  return {dot, sum_abs, [&problem](const Vector& w) { return mean_by_portions(problem, w); },
          history};
}

// One process that knows of neither shards nor portions.
SerialLbfgs serial_whole(const LogisticProblem& problem) {
  const auto mean = [&problem](const Vector& w) {
    auto sums = problem.sums(w, 0, problem.count());
    const auto count = static_cast<double>(problem.count());
    sums.loss /= count;
    for (double& one : sums.gradient) one /= count;
    return sums;
  };
  return {[](const Vector& a, const Vector& b) { return product(a.data(), b.data(), a.size()); },
          [](const Vector& a) { return absolute_sum(a); }, mean};
}

double relative_difference(const Vector& a, const Vector& b) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

std::function<machine::Time(int, std::int64_t)> drawn_speeds(std::uint64_t seed) {
  return [seed](int worker, std::int64_t portion) {
    SeededNumbers numbers(
        mix(mix(seed, static_cast<std::uint64_t>(worker)), static_cast<std::uint64_t>(portion)));
    const double slow = worker == 1 ? 20 : 1;
    return machine::Time(static_cast<machine::Time::rep>((1 + 5 * numbers.unit()) * slow * 1e6));
  };
}

void expect_path(const VirtualLbfgs& world, const LbfgsPath& expected, const std::string& where) {
  for (const auto& [number, worker] : world.workers) {
    if (world.dead.contains(number)) continue;
    ASSERT_EQ(worker->path.losses, expected.losses) << where << ", worker " << number;
    ASSERT_EQ(worker->path.parameters, expected.parameters) << where << ", worker " << number;
    EXPECT_THAT(worker->failures, Each(IsEmpty())) << where;
  }
}

TEST(LbfgsIterations, HaveTheBitsOfOneProcessThatSumsByShardsAndPortions) {
  const LogisticProblem problem(test::seed(4520000), 150, kParameters);
  const Vector first(kParameters, 0.1);
  for (const int servers : {1, 2, 3, 4}) {
    const LbfgsPath serial = serial_by_shards(problem, servers, 5).run(first, 12);
    ASSERT_EQ(serial.losses.size(), 12u);
    for (const int workers : {1, 2, 4, 7}) {
      PortionTraining training = training_of(problem, 12);
      training.computes = drawn_speeds(test::seed(4520001));
      VirtualLbfgs world(shape_for(problem, 5), workers, servers, first, training,
                         test::seed(4520002));
      ASSERT_TRUE(world.run());
      expect_path(world, serial, fmt::format("{} servers, {} workers", servers, workers));
    }
  }
}

TEST(LbfgsIterations, AreThoseOfOneProcessThatKnowsNothingOfServers) {
  const LogisticProblem problem(test::seed(4530000), 150, kParameters);
  const Vector first(kParameters, 0.1);
  const LbfgsPath serial = serial_whole(problem).run(first, 10);
  ASSERT_EQ(serial.losses.size(), 10u);
  for (const int servers : {1, 2, 3, 4}) {
    for (int workers = 1; workers <= 7; ++workers) {
      const PortionTraining training = training_of(problem);
      VirtualLbfgs world(shape_for(problem), workers, servers, first, training,
                         test::seed(4530001));
      ASSERT_TRUE(world.run());
      const LbfgsPath& path = world.leader().path;
      for (std::size_t k = 0; k < 10; ++k)
        EXPECT_LE(relative_difference(path.parameters[k], serial.parameters[k]), 1e-9)
            << servers << " servers, " << workers << " workers, iteration " << k + 1;
    }
  }
}

// A portion whose worker has died, before or after some servers had its gradient, is computed by
// another one, and counts once.
TEST(LbfgsIterations, StayTheSameWhenThirdsOfTheWorkersAreKilled) {
  const LogisticProblem problem(test::seed(4540000), 150, kParameters);
  const Vector first(kParameters, 0.1);
  const int worlds = test::is_nightly() ? 10'000 : 100;
  std::int64_t copies = 0;
  std::uint64_t repeats = 0;
  for (int world_number = 0; world_number < worlds; ++world_number) {
    const std::uint64_t seed = mix(test::seed(4540001), static_cast<std::uint64_t>(world_number));
    SeededNumbers numbers(seed);
    const int servers = 1 + static_cast<int>(numbers.below(4));
    const int workers = 2 + static_cast<int>(numbers.below(6));
    PortionTraining training = training_of(problem, 6);
    training.computes = drawn_speeds(seed);
    VirtualLbfgs world(shape_for(problem, 4), workers, servers, first, training, seed);
    for (int worker = 1; worker < workers; ++worker)
      if (numbers.unit() < 0.3)
        world.kill(worker, machine::Time(static_cast<machine::Time::rep>(6e8 * numbers.unit())));
    ASSERT_TRUE(world.run()) << "seed " << seed;
    expect_path(world, serial_by_shards(problem, servers, 4).run(first, 6),
                fmt::format("seed {}", seed));
    copies += world.leader().member.coordinator()->copies();
    for (const auto& [number, server] : world.servers) {
      repeats += server->repeats();
      EXPECT_LT(server->most_waiting(), static_cast<std::size_t>(world.shape.window()));
    }
  }
  EXPECT_GT(copies, worlds) << "the last portions are computed more than once";
  EXPECT_GT(repeats, static_cast<std::uint64_t>(worlds)) << "and servers take one of them";
}

TEST(LbfgsIterations, ASlowWorkerComputesLessAndDelaysNobodyForLong) {
  const LogisticProblem problem(test::seed(4550000), 280, kParameters);
  PortionTraining training = training_of(problem, 5);
  training.computes = [](int worker, std::int64_t) { return worker == 1 ? 100ms : 2ms; };
  VirtualLbfgs world(shape_for(problem), 4, 2, Vector(kParameters, 0.1), training,
                     test::seed(4550001));
  ASSERT_TRUE(world.run());
  const auto evaluations = world.leader().member.coordinator()->evaluations();
  EXPECT_GT(world.workers.at(0)->computed, 5 * world.workers.at(1)->computed);
  // Three workers need 40/3 of 2 ms for an evaluation, beside messages; the slow one alone 100 ms.
  EXPECT_LT(world.network.now(), evaluations * 60ms + 500ms);
}

// The loss falls by many elements alike, so that vectors may be long and the search stays the same.
// Each sample has the same share of it, which is computed once for all portions of an evaluation.
class Quadratic {
 public:
  LossAndGradient operator()(std::span<const double> w, std::int64_t begin, std::int64_t end) {
    if (!std::ranges::equal(w, w_)) take(w);
    LossAndGradient sums = of_a_sample_;
    const auto count = static_cast<double>(end - begin);
    sums.loss *= count;
    for (double& one : sums.gradient) one *= count;
    return sums;
  }

 private:
  void take(std::span<const double> w) {
    w_.assign(w.begin(), w.end());
    of_a_sample_ = {0, Vector(w.size())};
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double curvature = 1 + static_cast<double>(i % 50), target = target_of(i);
      of_a_sample_.loss += curvature * (w[i] - target) * (w[i] - target) / 2;
      of_a_sample_.gradient[i] = curvature * (w[i] - target);
    }
  }

  Vector w_;
  LossAndGradient of_a_sample_;

 public:
  static double target_of(std::size_t i) { return 1.0 / static_cast<double>(1 + i % 7); }
};

TEST(LbfgsIterations, TheCoordinatorSendsLittleWhateverTheNumberOfParameters) {
  std::vector<std::size_t> sent;
  const std::size_t longest = test::is_nightly() ? 10'000'000 : 30'000;
  for (const std::size_t elements : {std::size_t{10'000}, longest}) {
    // Commands do not depend on workers and portions, and few of them take less memory.
    const bool is_long = elements > 1'000'000;
    const std::int64_t portions = is_long ? 2 : 70;
    const int workers = is_long ? 1 : 7;
    const PortionTraining training{.sums = Quadratic(), .iterations = 13};
    VirtualLbfgs world({.name = "sandblaster",
                        .elements = elements,
                        .dtype = Dtype::f64,
                        .samples = 60'000,
                        .portion = 60'000 / portions},
                       workers, 8, Vector(elements), training, test::seed(4560000));
    ASSERT_TRUE(world.run());
    const auto& leader = world.leader();
    // The history is full from the eleventh iteration on.
    const std::size_t evaluations =
        static_cast<std::size_t>(leader.evaluations[12] - leader.evaluations[11]);
    const std::size_t lists = 21 + 2 * evaluations + 1;
    EXPECT_EQ(evaluations, 1u);
    EXPECT_LT(leader.coordinator_bytes[12], 64u << 10);
    EXPECT_LT(leader.command_bytes[12], 32u << 10);
    EXPECT_GT(leader.command_bytes[12], 8 * lists * (64 + kVectorHeader));
    sent.push_back(leader.command_bytes[12]);
  }
  EXPECT_EQ(sent[0], sent[1]);
}

TEST(LbfgsIterations, AFirstLossThatIsNoNumberNamesThePortionToAllWorkers) {
  const LogisticProblem problem(test::seed(4570000), 50, kParameters);
  PortionTraining training = training_of(problem, 1);
  training.sums = [&](std::span<const double> w, std::int64_t begin, std::int64_t end) {
    auto sums = problem.sums(w, begin, end);
    if (begin <= 23 && 23 < end) sums.loss = std::numeric_limits<double>::quiet_NaN();
    return sums;
  };
  const Vector first(kParameters, 0.1);
  VirtualLbfgs world(shape_for(problem), 3, 2, first, training, test::seed(4570001));
  ASSERT_TRUE(world.run());
  for (const auto& [number, worker] : world.workers) {
    EXPECT_THAT(worker->failures.at(0), AllOf(HasSubstr("portion 3 (samples 21 to 27) is nan"),
                                              HasSubstr("before iteration 1")));
    EXPECT_EQ(worker->path.parameters.at(0), first);
  }
}

TEST(LbfgsIterations, ASearchThatFailsLeavesTheParametersAndIsToldToAll) {
  const LogisticProblem problem(test::seed(4580000), 50, kParameters);
  PortionTraining training = training_of(problem, 4);
  int calls = 0;  // of portions: after those of four evaluations the loss only rises
  training.sums = [&](std::span<const double> w, std::int64_t begin, std::int64_t end) {
    auto sums = problem.sums(w, begin, end);
    if (++calls > 32) sums.loss += calls;
    return sums;
  };
  VirtualLbfgs world(shape_for(problem), 1, 2, Vector(kParameters, 0.1), training,
                     test::seed(4580001));
  ASSERT_TRUE(world.run());
  const auto& [parameters, losses] = world.leader().path;
  EXPECT_THAT(world.leader().failures.at(3),
              AllOf(HasSubstr("no step of iteration"), HasSubstr("strong Wolfe")));
  EXPECT_EQ(parameters[3], parameters[2]);
  EXPECT_EQ(losses[3], losses[2]);
}

// Worlds of workers of any speed, whose first iterations fail: a slow worker fetches the parameters
// where one ended when the others are in the next one already. `is_broken`: losses are no numbers.
void expect_all_alike(int failing,
                      const std::function<bool(const LbfgsCoordinator& leader)>& is_broken) {
  for (std::uint64_t number = 0; number < 50; ++number) {
    const std::uint64_t seed = test::seed(4582000 + number);
    const LogisticProblem problem(seed, 50, kParameters);
    VirtualLbfgs* running = nullptr;
    PortionTraining training = training_of(problem, failing + 3);
    training.computes = drawn_speeds(seed);
    training.sums = [&](std::span<const double> w, std::int64_t begin, std::int64_t end) {
      auto sums = problem.sums(w, begin, end);
      if (is_broken(*running->leader().member.coordinator()))
        sums.loss = std::numeric_limits<double>::quiet_NaN();
      return sums;
    };
    VirtualLbfgs world(shape_for(problem), 3, 2, Vector(kParameters, 0.1), training, seed);
    running = &world;
    ASSERT_TRUE(world.run()) << "seed " << seed;
    const LbfgsWorker& leader = world.leader();
    Vector before = leader.first;
    for (int i = 0; i < failing + 3; ++i) {
      const auto at = static_cast<std::size_t>(i);
      EXPECT_EQ(leader.failures[at].empty(), i >= failing) << "seed " << seed;
      EXPECT_EQ(leader.path.parameters[at] == before, i < failing) << "seed " << seed;
      before = leader.path.parameters[at];
    }
    for (const auto& [own, worker] : world.workers) {
      EXPECT_EQ(worker->path.parameters, leader.path.parameters) << "seed " << seed << ", " << own;
      EXPECT_EQ(worker->failures, leader.failures) << "seed " << seed << ", worker " << own;
    }
  }
}

TEST(LbfgsIterations, WorkersOfAnySpeedGoOnAfterFirstLossesThatAreNoNumbers) {
  expect_all_alike(2, [](const auto& leader) { return leader.evaluations() <= 2; });
}

TEST(LbfgsIterations, WorkersOfAnySpeedGoOnAfterAFirstSearchThatFails) {
  expect_all_alike(
      1, [](const auto& leader) { return leader.iterations() == 0 && leader.evaluations() > 1; });
}

TEST(LbfgsIterations, AtTheEndNothingIsDone) {
  const PortionTraining training{.sums = Quadratic(), .iterations = 3};
  Vector first(20);
  for (std::size_t i = 0; i < first.size(); ++i) first[i] = Quadratic::target_of(i);
  VirtualLbfgs world(
      {.name = "sandblaster", .elements = 20, .dtype = Dtype::f64, .samples = 100, .portion = 9}, 2,
      3, first, training, test::seed(4590000));
  ASSERT_TRUE(world.run());
  EXPECT_THAT(world.leader().failures, Each(IsEmpty()));
  EXPECT_THAT(world.leader().path.parameters, Each(first));
  EXPECT_EQ(world.leader().member.coordinator()->evaluations(), 1);
}

}  // namespace
}  // namespace paceline::server
