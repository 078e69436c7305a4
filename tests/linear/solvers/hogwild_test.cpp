#include <gmock/gmock.h>

#include "paceline/linear/threads/step_settings.h"
#include "tests/linear/threads/sparse_logistic.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::linear::hogwild_test {
namespace {

using ::testing::HasSubstr;

TEST(Hogwild, OneThreadHasTheBitsOfOneLoopInBothForms) {
  const Samples samples = test::sparse_samples(1000, 300, 8, test::seed(2570000));
  for (const double l2 : {0., 1e-3}) {
    const Problem problem = test::logistic_problem(l2);
    const auto expected = test::solved_by_one_loop(problem, samples, 5);
    for (const char* const update : {"fetch_add", "racy"})
      EXPECT_EQ(
          test::solved_alone(std::string("hogwild:threads=1,update=") + update, problem, samples, 5)
              .weights,
          expected)
          << update;
  }
}

TEST(Hogwild, SamplesWithoutCommonFeaturesHaveTheBitsOfOneLoopOnAnyThreads) {
  const Samples samples = test::disjoint_samples(2000, test::seed(2580000));
  const Problem problem = test::logistic_problem(1e-5);
  const auto expected = test::solved_by_one_loop(problem, samples, 3);
  for (const char* const solver :
       {"hogwild:threads=2,update=fetch_add", "hogwild:threads=5,update=racy",
        "hogwild:threads=8,update=fetch_add", "hogwild"})
    EXPECT_EQ(test::solved_alone(solver, problem, samples, 3).weights, expected) << solver;
}

TEST(Hogwild, OnSparseSamplesThreadsReachTheLossOfOneWithinOnePercent) {
  const std::size_t n = test::is_brief() ? 3000 : 20000;
  const Samples samples = test::sparse_samples(n, 5 * n, 10, test::seed(2590000));
  const Problem problem = test::logistic_problem(1e-6);
  const double serial = test::solved_alone("hogwild:threads=1,rate=2", problem, samples, 4).primal;
  EXPECT_LT(serial, .6) << "it has learnt something: at 0 weights the loss is log 2";
  for (const char* const solver :
       {"hogwild:threads=2,rate=2", "hogwild:threads=4,rate=2", "hogwild:threads=16,rate=2",
        "hogwild:threads=4,rate=2,update=racy"})
    EXPECT_NEAR(test::solved_alone(solver, problem, samples, 4).primal / serial, 1, .01) << solver;
}

TEST(Hogwild, SeveralThreadsAreToldHowSparseTheSamplesAre) {
  const Samples samples = test::disjoint_samples(10, 1);
  const Problem problem = test::logistic_problem(0);
  EXPECT_EQ(test::solved_alone("hogwild:threads=1", problem, samples, 1).remark, "");
  EXPECT_EQ(test::solved_alone("hogwild:threads=2", problem, samples, 1).remark,
            "a sample has up to 3 features, a feature is in up to 10 % of the samples, and a "
            "sample shares features with up to 10 % of them");
}

TEST(Hogwild, RefusesL1SeveralRanksAndUnknownSettings) {
  const Samples samples = test::disjoint_samples(10, 1);
  Problem problem = test::logistic_problem(0);
  const SolverMethod method = parse_solver("hogwild").value().entry;
  EXPECT_THAT(check_solver(method, problem, samples, 2).error().what,
              HasSubstr("hogwild runs in one process, and there are 2 ranks"));
  problem.l1 = .1;
  EXPECT_THAT(check_solver(method, problem, samples, 1).error().what,
              HasSubstr("hogwild has no l1"));
  EXPECT_THAT(parse_solver("hogwild:thread=2").error().what, HasSubstr("threads"));
  EXPECT_THAT(parse_solver("hogwild:update=lost").error().what, HasSubstr("fetch_add"));
  const Settings standard = parse_solver("hogwild").value().settings;
  EXPECT_GE(threads_in(standard), 1) << "auto";
  EXPECT_EQ(step_rate_in(standard).of_epoch(2), .1 * std::pow(.9, 2.));
}

}  // namespace
}  // namespace paceline::linear::hogwild_test
