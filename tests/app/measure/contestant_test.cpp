#include "paceline/app/measure/contestant.h"

#include <gtest/gtest.h>

#include <vector>

#include "paceline/core/job/use_devices.h"
#include "tests/support/late_device.h"
#include "tests/support/local_world.h"
#include "tests/support/seed.h"

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

TEST(DeviceContestant, HasTheRightResultOfEachOperation) {
  test::LateDevices devices(test::seed(4431), 2);
  test::run_ranks(3, [&](Job& job) {
    job::use_devices(job, devices);
    for (const Operation operation :
         {Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather,
          Operation::broadcast, Operation::reduce, Operation::gather, Operation::scatter,
          Operation::all_to_all, Operation::barrier}) {
      const Candidate candidate{.operation = operation, .bytes = 4000};
      std::vector<std::byte> memory(memory_of(candidate, 3));
      const auto one = make_device_contestant(job, job.rank() % 2, job.world(), candidate, memory);
      for (int iteration = 0; iteration < 3; ++iteration) {
        one->fill(iteration);
        one->operate();
        EXPECT_EQ(one->wrong(iteration), 0U) << name_of(operation);
      }
    }
    job.world().barrier().wait();
  });
}

}  // namespace
}  // namespace paceline::measure
