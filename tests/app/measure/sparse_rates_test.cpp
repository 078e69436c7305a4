#include "paceline/app/measure/sparse_rates.h"

#include <gtest/gtest.h>

#include "paceline/core/base/result.h"
#include "paceline/core/server/serve.h"
#include "tests/support/local_world.h"

namespace paceline::measure {
namespace {

TEST(SparseRates, AreTheSameOnAllWorkersAndPositive) {
  const SparseOptions options{.rows = 3000, .ids = 50, .seconds = 0.02};
  EXPECT_GT(bare_sparse_rates(options).pulled, 0);
  EXPECT_GT(bare_sparse_rates(options).pushed, 0);
  std::vector<double> pulled(2);
  const LocalWorldOptions world = {.servers = 1};
  test::run_ranks(2, world, [&](Job& job) {
    if (job.role() == Role::server) return serve(job);
    pulled[static_cast<std::size_t>(job.rank())] = sparse_rates_of_workers(job, options).pulled;
  });
  EXPECT_GT(pulled[0], 0);
  EXPECT_EQ(pulled[0], pulled[1]);
}

TEST(SparseRates, OfARuleThatIsNotThereAreRefused) {
  EXPECT_THROW(bare_sparse_rates({.rule = "rmsprop"}), Error);
}

}  // namespace
}  // namespace paceline::measure
