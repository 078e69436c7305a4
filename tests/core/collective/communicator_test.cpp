#include "paceline/core/collective/communicator.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/support/local_world.h"

namespace paceline {
namespace {

using test::run_ranks;

TEST(Communicator, AllReduceSumsOnEveryRank) {
  for (const int n : {1, 2, 3, 4}) {
    run_ranks(n, [n](Job& job) {
      std::vector<float> values(1000);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7 + static_cast<std::size_t>(job.rank()));
      job.world().all_reduce(buffer_of(values)).wait();
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(values[i], static_cast<float>(n * static_cast<int>(i % 7) + n * (n - 1) / 2));
      }
    });
  }
}

}  // namespace
}  // namespace paceline
