// Members that come and go while steps are open. Ssp's come and go in the test of ssp.
// Also covers paceline/core/server/machine/range_machine.cpp.
#include <gtest/gtest.h>

#include "tests/core/server/machine/partial_world.h"
#include "tests/support/seed.h"

namespace paceline::test {
namespace {

TEST(Members, WorkersLeaveAndJoinAtAnyMoment) {
  for (const char* synchrony :
       {"bsp", "bounded_delay:steps=2", "timeout:milliseconds=20,late=apply_late"}) {
    for (int number = 0; number < worlds_of(100); ++number) {
      SeededNumbers numbers(seed(2870000 + static_cast<std::uint64_t>(number)));
      PartialWorld world(synchrony, 3, numbers.next(), drawn_times(numbers.next()));
      const auto update = world.training.update;
      world.training.update = [&](int worker, std::int64_t clock, std::span<const double> values) {
        return update(worker == 100 ? 0 : worker, clock, values);  // 0 leaves before 100 comes
      };
      world.table.network.run(100ms + machine::Time(numbers.below(200'000'000)));
      world.table.gone.insert(0);
      world.table.network.kill(0, world.table.network.now());
      world.table.network.run(world.table.network.now() + machine::Time(numbers.below(50'000'000)));
      world.table.add_worker(100, true);
      ASSERT_TRUE(world.run()) << synchrony << ": no progress; seed " << number;
    }
  }
}

}  // namespace
}  // namespace paceline::test
