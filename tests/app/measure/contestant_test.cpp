#include "paceline/app/measure/contestant.h"

#include <gtest/gtest.h>

namespace paceline::measure {
namespace {

constexpr Operation kOfEqualParts[] = {Operation::gather, Operation::scatter,
                                       Operation::all_to_all};

TEST(Candidate, HasAsManyElementsAsFitAndAtLeastOne) {
  for (const std::size_t bytes : {0, 1, 4, 7, 8, 1000}) {
    for (const Dtype dtype : {Dtype::u8, Dtype::bf16, Dtype::f32, Dtype::f64}) {
      const auto count = count_of({.bytes = bytes, .dtype = dtype}, 3);
      EXPECT_EQ(count, std::max<std::size_t>(1, bytes / size_of(dtype)));
    }
  }
}

TEST(Candidate, HasEqualPartsWhereTheOperationWantsThem) {
  for (const Operation operation : kOfEqualParts) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      const auto parts = static_cast<std::size_t>(ranks);
      for (std::size_t bytes = 0; bytes < 200; ++bytes) {
        const auto count = count_of({.operation = operation, .bytes = bytes}, ranks);
        EXPECT_EQ(count % parts, 0U);
        EXPECT_GE(count, parts);
        EXPECT_TRUE(count == parts || (count * 4 <= bytes && bytes < (count + parts) * 4));
      }
    }
  }
}

TEST(Candidate, OfABarrierHasNothingToMove) {
  EXPECT_EQ(count_of({.operation = Operation::barrier, .bytes = 64}, 2), 0U);
  EXPECT_EQ(bus_factor(Operation::barrier, 2), 0);
}

TEST(Candidate, UsesTheBusAsAllReduceDoesInItsTwoHalves) {
  for (int ranks = 1; ranks <= 64; ++ranks) {
    EXPECT_DOUBLE_EQ(
        bus_factor(Operation::all_reduce, ranks),
        bus_factor(Operation::reduce_scatter, ranks) + bus_factor(Operation::all_gather, ranks));
    EXPECT_EQ(bus_factor(Operation::broadcast, ranks), 1);
  }
  EXPECT_DOUBLE_EQ(bus_factor(Operation::all_to_all, 4), 0.75);
}

}  // namespace
}  // namespace paceline::measure
