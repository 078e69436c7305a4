#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <latch>
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

TEST(AsyncAdmmSolver, WhoeverWaitsNamesTheRankThatBringsNothing) {
  const test::LinearCase one_case = few_samples();
  std::latch all_have_ended(3), others_have_ended(2);
  std::array<Failure, 3> failures;
  // The first one's deadline ends all, so it leaves the other one time to tell its stall.
  const LocalWorldOptions options = {.operation_timeout = std::chrono::milliseconds(800),
                                     .stall_time = std::chrono::milliseconds(50)};
  ::testing::internal::CaptureStderr();
  test::run_ranks(3, options, [&](Job& job) {
    auto one = make_solver(parse_solver("async_admm:barrier=3,passes=3").value(),
                           {.problem = one_case.problem,
                            .samples = one_case.samples,
                            .group = job.world(),
                            .seed = 5});
    if (job.rank() == 2) {
      others_have_ended.wait();
    } else {
      try {
        one->round();
      } catch (const Error& error) {
        failures.at(static_cast<std::size_t>(job.rank())) = error.failure();
      }
      others_have_ended.count_down();
    }
    all_have_ended.arrive_and_wait();
  });
  const std::string lines = ::testing::internal::GetCapturedStderr();
  for (const int rank : {0, 1}) {
    EXPECT_THAT(lines, HasSubstr(fmt::format("stall: for 0.05 s rank {} waits in a round of "
                                             "asynchronous ADMM for rank 2, which has not brought "
                                             "its solution\n",
                                             rank)));
    const Failure& failure = failures.at(static_cast<std::size_t>(rank));
    EXPECT_EQ(failure.fault, Fault::timed_out);
    EXPECT_EQ(failure.ranks, std::vector<int>{2}) << failure.what;
  }
}

}  // namespace
}  // namespace paceline::linear::async_admm_test
