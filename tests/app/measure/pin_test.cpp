#include "paceline/app/measure/pin.h"

#include <gtest/gtest.h>

#include "tests/support/local_world.h"

namespace paceline::measure {
namespace {

cpu_set_t allowed() {
  cpu_set_t set;
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  return set;
}

TEST(Pin, IsToOneAllowedProcessorAndEndsWithItsOwner) {
  for (const int ranks : {1, 2, 3}) {
    test::run_ranks(ranks, [](Job& job) {
      const cpu_set_t before = allowed();
      {
        const Pin pin(job);
        const cpu_set_t own = allowed();
        cpu_set_t both;
        CPU_AND(&both, &own, &before);
        EXPECT_EQ(CPU_COUNT(&own), 1);
        EXPECT_TRUE(CPU_EQUAL(&both, &own));
      }
      const cpu_set_t after = allowed();
      EXPECT_TRUE(CPU_EQUAL(&after, &before));
    });
  }
}

}  // namespace
}  // namespace paceline::measure
