#include "paceline/linear/solver/vector_exchange.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/local_world.h"

namespace paceline::linear {
namespace {

TEST(VectorExchangeTest, ASumIsOneOperationAndItsBytesAreThoseOfTheVector) {
  test::run_ranks(3, [](Job& job) {
    VectorExchange exchange(job.world());
    const auto before = job.world().traffic().operations;
    std::vector<double> values = {1.0 + job.rank(), 10};
    exchange.sum(values);
    EXPECT_EQ(values, (std::vector<double>{6, 30}));
    EXPECT_EQ(exchange.bytes_brought(), 16u);
    EXPECT_EQ(job.world().traffic().operations - before, 1u);
  });
}

TEST(VectorExchangeTest, AloneNothingTravels) {
  test::run_ranks(1, [](Job& job) {
    VectorExchange exchange(job.world());
    std::vector<double> values = {7};
    exchange.sum(values);
    EXPECT_EQ(values.front(), 7);
    EXPECT_EQ(exchange.bytes_brought(), 0u);
    EXPECT_EQ(job.world().traffic().operations, 0u);
  });
}

}  // namespace
}  // namespace paceline::linear
