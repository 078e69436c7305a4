// Asynchronous parallel on a bad network, by marks.
// Also covers paceline/core/server/consistency/asp.cpp.
#include <gtest/gtest.h>

#include "tests/core/server/machine/ssp_world.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

TEST(Asp, EveryUpdateCountsOnceWhateverTheNetworkDoes) {
  for (int number = 0; number < worlds_of(250); ++number) {
    SspWorld world(std::nullopt, seed(2740000 + static_cast<std::uint64_t>(number)));
    if (number % 2 == 0) world.churn(1);
    ASSERT_TRUE(world.table.run()) << "no progress; seed " << number;
    ASSERT_EQ(world.complaint(), "") << "seed " << number;
  }
}

}  // namespace
}  // namespace paceline::test
