#include <fmt/format.h>
#include <gmock/gmock.h>

#include <mutex>

#include "paceline/linear.h"
#include "tests/linear/linear_problems.h"
#include "tests/support/local_world.h"
#include "tests/support/seed.h"

namespace paceline::linear::async_admm_test {
namespace {

using ::testing::HasSubstr;

test::LinearCase few_samples() {
  return test::sign_case(test::seed(2660000), "logistic", 120, 8);
}

TEST(AsyncAdmmSolver, WithABarrierOfAllRanksItHasTheBitsOfAdmm) {
  const test::LinearCase one = few_samples();
  for (const int ranks : {1, 2, 3, 4}) {
    const auto expected = test::run_solver(one, "admm:passes=3", ranks, 4);
    for (const auto& settings :
         {fmt::format("barrier={}", ranks), std::string("delay=1,updates=1")}) {
      const auto run = test::run_solver(one, "async_admm:passes=3," + settings, ranks, 4);
      EXPECT_EQ(run.weights, expected.weights) << ranks << " ranks, " << settings;
      EXPECT_EQ(run.bytes_brought, ranks > 1 ? 4 * 8 * sizeof(double) : 0) << "nobody else has it";
    }
  }
}

TEST(AsyncAdmmSolver, WithTheStandardBarrierAllRanksHaveOneResultWhoseGapCloses) {
  const auto run = test::run_solver(few_samples(), "async_admm:updates=10", 4, 20);
  EXPECT_LT(run.objectives.back().gap(), 1e-6);
  EXPECT_LT(run.objectives.back().gap(), run.objectives.front().gap() / 100);
}

TEST(AsyncAdmmSolver, ARankThatEndsEarlyIsNamedByAllOthers) {
  const test::LinearCase one_case = few_samples();
  std::mutex mutex;
  std::vector<Failure> failures;
  test::run_ranks(3, [&](Job& job) {
    auto one = make_solver(parse_solver("async_admm").value(), {.problem = one_case.problem,
                                                                .samples = one_case.samples,
                                                                .group = job.world(),
                                                                .seed = 5});
    one->round();
    if (job.rank() == 2) {
      one.reset();
    } else {
      try {
        for (int round = 0; round < 1000; ++round) one->round();
      } catch (const Error& error) {
        const std::lock_guard lock(mutex);
        failures.push_back(error.failure());
      }
    }
    job.world().barrier().wait();
  });
  ASSERT_EQ(failures.size(), 2u);
  for (const Failure& failure : failures) {
    EXPECT_EQ(failure.fault, Fault::peer_lost);
    EXPECT_EQ(failure.ranks, std::vector<int>{2});
    EXPECT_THAT(failure.what, HasSubstr("rank 2 has ended asynchronous ADMM"));
  }
}

}  // namespace
}  // namespace paceline::linear::async_admm_test
