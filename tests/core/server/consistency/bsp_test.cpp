// Bulk synchronous parallel on a bad network, and the other models where they come to the same.
// Also covers paceline/core/server/consistency/bsp.cpp and
// paceline/core/server/machine/table_machine.cpp.
#include <gtest/gtest.h>

#include "tests/core/server/machine/quadratic_world.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

constexpr const char* kSynchronousForms[] = {"bsp",
                                             "ssp:staleness=0",
                                             "bounded_delay:steps=0",
                                             "bounded_delay:steps=0,exact=on",
                                             "backup_workers:spare=0",
                                             "timeout:milliseconds=1e9"};

std::vector<double> trained(std::string synchrony, std::string rule, Dtype dtype, int number) {
  const std::uint64_t seed_of = seed(2810000 + static_cast<std::uint64_t>(number));
  QuadraticWorld world(std::move(synchrony), std::move(rule), dtype, 1 + number % 5, 1 + number % 3,
                       seed_of);
  EXPECT_TRUE(world.table.run()) << "no progress; seed " << number;
  for (const auto& [member, worker] : world.table.workers)
    EXPECT_EQ(worker->values(), world.table.held()) << "all have read what the servers hold";
  return world.table.held();
}

TEST(Bsp, SynchronousFormsHaveTheBitsOfOneLoop) {
  for (int number = 0; number < worlds_of(40); ++number) {
    const std::uint64_t seed_of = seed(2810000 + static_cast<std::uint64_t>(number));
    const int workers = 1 + number % 5;
    const auto wide = QuadraticWorld::serial<double>(seed_of, workers, 6, 0.1);
    const auto narrow = QuadraticWorld::serial<float>(seed_of, workers, 6, 0.1f);
    for (const char* synchrony : kSynchronousForms) {
      ASSERT_EQ(trained(synchrony, "sgd:rate=0.1", Dtype::f64, number), wide)
          << synchrony << ", seed " << number;
      ASSERT_EQ(trained(synchrony, "sgd:rate=0.1", Dtype::f32, number), narrow)
          << synchrony << ", seed " << number;
    }
  }
}

TEST(Bsp, SynchronousFormsHaveTheBitsOfBspUnderEveryRule) {
  for (const server::Rule& rule : server::built_in_rules()) {
    if (rule.sums) continue;
    for (int number = 0; number < worlds_of(10); ++number) {
      const auto bsp = trained("bsp", std::string(rule.name), Dtype::f32, number);
      for (const char* synchrony : kSynchronousForms)
        ASSERT_EQ(trained(synchrony, std::string(rule.name), Dtype::f32, number), bsp)
            << synchrony << ", " << rule.name << ", seed " << number;
    }
  }
}

// This is the fifth mutant: see also mutants_test.cpp.
TEST(Bsp, SspThatShowsUpdatesOnArrivalIsNotBsp) {
  int differ = 0;
  for (int number = 0; number < worlds_of(40); ++number)
    differ += trained("ssp:staleness=0,best_effort=on", "sgd", Dtype::f64, number) !=
              trained("bsp", "sgd", Dtype::f64, number);
  EXPECT_GT(differ, worlds_of(40) / 4);
}

}  // namespace
}  // namespace paceline::test
