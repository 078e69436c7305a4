#include "paceline/app/measure/pin.h"

#include <gtest/gtest.h>

namespace paceline::measure {
namespace {

cpu_set_t allowed() {
  cpu_set_t set;
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  return set;
}

TEST(Pin, is_to_one_allowed_processor_and_ends_with_its_owner) {
  const cpu_set_t before = allowed();
  for (int local_rank = 0; local_rank < 2 * CPU_COUNT(&before); ++local_rank) {
    {
      const Pin pin(local_rank);
      const cpu_set_t own = allowed();
      cpu_set_t both;
      CPU_AND(&both, &own, &before);
      EXPECT_EQ(CPU_COUNT(&own), 1);
      EXPECT_TRUE(CPU_EQUAL(&both, &own));
    }
    const cpu_set_t after = allowed();
    EXPECT_TRUE(CPU_EQUAL(&after, &before));
  }
}

}  // namespace
}  // namespace paceline::measure
