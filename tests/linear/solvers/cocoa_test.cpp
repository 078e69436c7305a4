// Also covers paceline/linear/solver/cocoa_rounds.cpp.
#include <gtest/gtest.h>

#include "paceline/linear/solver/cocoa_rounds.h"
#include "tests/linear/linear_problems.h"
#include "tests/support/local_world.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::linear {
namespace {

struct SerialRun {
  std::vector<double> weights, duals;
};

// The method on `ranks` parts of the samples of a ridge regression, in one process.
SerialRun serial_cocoa(const test::LinearCase& one, int ranks, double share, double stretch,
                       int rounds) {
  const auto n = static_cast<double>(one.samples.size());
  SerialRun run{std::vector<double>(one.samples.rows.width),
                std::vector<double>(one.samples.size())};
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> sum(run.weights.size()), duals = run.duals;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto part = part_of(one.samples.size(), Split::contiguous, 1, rank, ranks);
      std::vector<double> v(run.weights.size());
      for (const std::size_t k : permutation(part.size(), seed_of(1, rank, round))) {
        const SparseVector x = one.samples.rows.row(part[k]);
        const double prediction = dot(x, run.weights) + stretch * dot(x, v);
        double& a = duals[part[k]];
        const double step = (one.samples.labels[part[k]] - prediction - a) /
                            (1 + stretch * squared_norm(x) / (one.problem.l2 * n));
        a += step;
        add(step / (one.problem.l2 * n), x, v);
      }
      for (std::size_t j = 0; j < v.size(); ++j) sum[j] += v[j];
    }
    for (std::size_t j = 0; j < sum.size(); ++j) run.weights[j] += share * sum[j];
    for (std::size_t i = 0; i < duals.size(); ++i)
      run.duals[i] += share * (duals[i] - run.duals[i]);
  }
  return run;
}

void expect_equal_on_ranks(std::string_view solver, bool adds) {
  const test::LinearCase one = test::ridge_case(test::seed(71), 203);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const double share = adds ? 1 : 1.0 / ranks, stretch = adds ? ranks : 1;
    const auto run = test::run_solver(one, solver, ranks, 20);
    const SerialRun serial = serial_cocoa(one, ranks, share, stretch, 20);
    EXPECT_LT(test::largest_difference(run.weights, serial.weights), 1e-10) << ranks;
    EXPECT_EQ(run.bytes_brought, ranks == 1 ? 0u : 20u * 8 * 20) << "8 bytes a feature a round";
  }
}

TEST(CocoaTest, OnRanksItIsTheSerialForm) {
  expect_equal_on_ranks("cocoa", false);
}
TEST(CocoaTest, AddingOnRanksIsTheSerialForm) {
  expect_equal_on_ranks("cocoa_plus", true);
}

TEST(CocoaTest, OnOneRankItIsSdca) {
  const test::LinearCase one = test::sign_case(test::seed(72), "logistic", 100, 8);
  const auto alone = test::run_solver(one, "sdca", 1, 5);
  for (const std::string_view solver : {"cocoa", "cocoa_plus"})
    EXPECT_LT(test::largest_difference(test::run_solver(one, solver, 1, 5).weights, alone.weights),
              1e-13);
}

// Some cases have an empty part, and some dual variables that do not begin at 0.
TEST(CocoaTest, TheDualNeverFallsAndTheWeightsAreThoseOfTheVariables) {
  for (const std::string_view loss : {"hinge", "smooth_hinge", "logistic"}) {
    for (const std::string_view solver : {"cocoa", "cocoa_plus:passes=2"}) {
      for (const std::size_t samples : {3u, 90u}) {
        const auto run =
            test::run_solver(test::sign_case(test::seed(73), loss, samples, 8), solver, 4, 20);
        for (std::size_t k = 0; k < run.objectives.size(); ++k) {
          EXPECT_GT(run.objectives[k].gap(), -1e-14);
          const double before = run.objectives[k > 0 ? k - 1 : 0].dual;
          EXPECT_GE(run.objectives[k].dual, before - 1e-14);
        }
        // The objective's dual is that of the variables alone, so the gap shows the weights too.
        EXPECT_LT(run.objectives.back().gap(), run.objectives.front().gap());
      }
    }
  }
}

TEST(CocoaTest, TheWeightsAreExactlyThoseOfTheDualVariables) {
  const test::LinearCase one = test::sign_case(test::seed(74), "logistic", 90, 8);
  test::run_ranks(3, [&](Job& job) {
    const SolverContext context{one.problem, one.samples, Split::shuffled, job.world()};
    const auto solver = make_solver(parse_solver("cocoa").value(), context);
    for (int round = 0; round < 10; ++round) solver->round();
    const auto own = context.own_samples();
    std::vector<double> meant(8);
    for (std::size_t k = 0; k < own.size(); ++k)
      add(solver->dual_variables()[k] / (one.problem.l2 * 90), one.samples.rows.row(own[k]), meant);
    job.world().all_reduce(buffer_of(meant)).wait();
    EXPECT_LT(test::largest_difference(solver->weights(), meant), 1e-10);
  });
}

// The published figures are those of independent draws.
TEST(CocoaTest, AddingBeatsAveraging) {
  const std::uint64_t seeds = test::is_nightly() ? 10 : 3;
  for (std::uint64_t data = 0; data < seeds; ++data) {
    const int ranks = data % 2 == 0 ? 4 : 8;
    const test::LinearCase one = test::ridge_case(test::seed(750 + data));
    const auto averaging = test::run_solver(one, "cocoa:order=draws", ranks, 40),
               adding = test::run_solver(one, "cocoa_plus:order=draws", ranks, 40);
    EXPECT_GT(averaging.objectives.back().gap(), 2 * adding.objectives.back().gap());
  }
}

TEST(CocoaTest, AddingWithoutCareDiverges) {
  const test::LinearCase one = test::ridge_case(test::seed(79));
  test::run_ranks(4, [&](Job& job) {
    const SolverContext context{one.problem, one.samples, Split::contiguous, job.world()};
    const auto solver =
        cocoa_rounds({.share = 1, .stretch = 1}, standard_settings(cocoa_settings()), context);
    for (int round = 0; round < 60; ++round) solver->round();
    const Samples own = select(one.samples, context.own_samples());
    EXPECT_GT(objective(one.problem, own, one.samples.size(), solver->weights(),
                        solver->dual_variables(), job.world())
                  .gap(),
              1e6);
  });
}

}  // namespace
}  // namespace paceline::linear
