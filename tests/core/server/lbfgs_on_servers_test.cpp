#include "paceline/core/server/lbfgs_on_servers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "paceline/core/server/serve.h"
#include "paceline/core/server/server_table.h"
#include "tests/core/server/vectors/logistic_problem.h"
#include "tests/support/local_world.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

using test::LbfgsPath;
using test::LogisticProblem;
using test::Vector;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kLbfgsElements = 40;

void run_with_servers(int workers, int servers, const std::function<void(Job&)>& work) {
  const LocalWorldOptions options = {.servers = servers};
  test::run_ranks(workers, options, [&](Job& job) {
    if (job.role() == Role::server) serve(job);
    else work(job);
  });
}

LbfgsSettings settings_for(const LogisticProblem& problem) {
  return {
      .elements = problem.dimension, .dtype = Dtype::f64, .samples = problem.count(), .portion = 9};
}

double sums_of(const LogisticProblem& problem, const PortionWork& work) {
  Vector w(problem.dimension);
  std::memcpy(w.data(), work.parameters.data, work.parameters.size_bytes());
  const auto sums = problem.sums(w, work.begin, work.end);
  std::memcpy(work.gradient.data, sums.gradient.data(), work.gradient.size_bytes());
  return sums.loss;
}

std::string misuse_in(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(LbfgsOnServers, AllRanksSeeTheSameIterationsWhateverTheirNumber) {
  const LogisticProblem problem(test::seed(4630000), 300, kLbfgsElements);
  std::mutex mutex;
  for (const int servers : {1, 3}) {
    std::optional<LbfgsPath> expected;
    for (const int workers : {1, 3}) {
      run_with_servers(workers, servers, [&](Job& job) {
        Vector first(kLbfgsElements, job.rank() == 0 ? 0.1 : 7);
        LbfgsOnServers lbfgs(job, settings_for(problem), const_buffer_of(first));
        LbfgsPath path;
        for (int i = 0; i < 8; ++i) {
          const auto end =
              lbfgs.iterate([&](const PortionWork& work) { return sums_of(problem, work); });
          path.losses.push_back(end.loss);
          path.parameters.emplace_back(kLbfgsElements);
          std::memcpy(path.parameters.back().data(), end.parameters.data,
                      end.parameters.size_bytes());
        }
        const std::lock_guard lock(mutex);
        if (!expected) expected = path;
        EXPECT_EQ(path.losses, expected->losses) << servers << " servers, " << workers << " ranks";
        EXPECT_EQ(path.parameters, expected->parameters);
        for (std::size_t i = 1; i < path.losses.size(); ++i)
          EXPECT_LT(path.losses[i], path.losses[i - 1]);
      });
    }
  }
}

TEST(LbfgsOnServers, OneAfterTheOtherAndTablesBesideItHaveServersOfTheirOwn) {
  const LogisticProblem problem(test::seed(4640000), 60, kLbfgsElements);
  run_with_servers(2, 2, [&](Job& job) {
    Table table(job, {.name = "beside", .elements = 10});
    Vector first(kLbfgsElements, 0.1), losses;
    for (int round = 0; round < 3; ++round) {
      LbfgsOnServers lbfgs(job, settings_for(problem), const_buffer_of(first));
      EXPECT_THAT(
          misuse_in([&] { LbfgsOnServers(job, settings_for(problem), const_buffer_of(first)); }),
          HasSubstr("table 'sandblaster': this job has a table of that name"));
      for (int i = 0; i < 2; ++i)
        losses.push_back(
            lbfgs.iterate([&](const PortionWork& work) { return sums_of(problem, work); }).loss);
    }
    EXPECT_EQ(losses[0], losses[2]);
    EXPECT_EQ(losses[1], losses[5]);
  });
}

TEST(LbfgsOnServers, RefusesBeforeTheFirstStepAndNamesThePortion) {
  const LogisticProblem problem(test::seed(4650000), 60, kLbfgsElements);
  Vector first(kLbfgsElements, 0.1);
  run_with_servers(2, 1, [&](Job& job) {
    LbfgsSettings settings = settings_for(problem);
    settings.portion = 0;
    EXPECT_THAT(misuse_in([&] { LbfgsOnServers(job, settings, const_buffer_of(first)); }),
                HasSubstr("a portion has 0 samples"));
    LbfgsOnServers lbfgs(job, settings_for(problem), const_buffer_of(first));
    const auto refused = misuse_in([&] {
      lbfgs.iterate([&](const PortionWork& work) {
        return work.number == 2 ? std::numeric_limits<double>::infinity() : sums_of(problem, work);
      });
    });
    EXPECT_THAT(refused, HasSubstr("portion 2 (samples 18 to 26) is inf"));
    Vector left(kLbfgsElements);
    std::memcpy(left.data(), lbfgs.parameters().data, lbfgs.parameters().size_bytes());
    EXPECT_EQ(left, first);
  });
  test::run_ranks(1, [&](Job& job) {
    EXPECT_THAT(
        misuse_in([&] { LbfgsOnServers(job, settings_for(problem), const_buffer_of(first)); }),
        HasSubstr("start it with `paceline run --servers N`"));
  });
}

TEST(LbfgsOnServers, RanksThatDifferAreNamed) {
  const LogisticProblem problem(test::seed(4660000), 60, kLbfgsElements);
  Vector first(kLbfgsElements, 0.1);
  std::mutex mutex;
  std::vector<std::string> told;
  try {
    run_with_servers(2, 1, [&](Job& job) {
      LbfgsSettings settings = settings_for(problem);
      settings.history = 5 + job.rank();
      const std::string text =
          misuse_in([&] { LbfgsOnServers(job, settings, const_buffer_of(first)); });
      const std::lock_guard lock(mutex);
      told.push_back(text);
    });
  } catch (const Error&) {
  }
  ASSERT_EQ(told.size(), 2u);
  for (const std::string& text : told)
    EXPECT_THAT(text, AllOf(HasSubstr("history=5"), HasSubstr("history=6"), HasSubstr("rank 1")));
}

}  // namespace
}  // namespace paceline::server
