// Laws of a barrier that some of the workers pass.
#include "paceline/core/coordination/partial_barrier.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::coordination {
namespace {

using ::testing::ElementsAre;

PartialBarrier barrier_of(int workers, const PartialBarrierPace& pace) {
  PartialBarrier barrier(pace);
  for (int worker = 0; worker < workers; ++worker) barrier.join(worker);
  return barrier;
}

TEST(PartialBarrier, IsPassedByEnoughWorkersAndByThoseAloneWhoHaveArrived) {
  PartialBarrier barrier = barrier_of(3, {.barrier = 2, .delay = 9});
  EXPECT_FALSE(barrier.can_pass());
  barrier.arrive(2);
  barrier.arrive(2);
  EXPECT_FALSE(barrier.can_pass()) << "one worker, however often it arrives";
  barrier.arrive(0);
  ASSERT_TRUE(barrier.can_pass());
  EXPECT_THAT(barrier.pass(), ElementsAre(0, 2));
  EXPECT_FALSE(barrier.can_pass());
  EXPECT_EQ(barrier.age_of(0), 0);
  EXPECT_EQ(barrier.age_of(1), 1);
}

TEST(PartialBarrier, OfMoreThanThereAreMeansAll) {
  PartialBarrier barrier = barrier_of(2, {.barrier = 5, .delay = 100});
  barrier.arrive(0);
  EXPECT_FALSE(barrier.can_pass());
  barrier.arrive(1);
  EXPECT_TRUE(barrier.can_pass());
}

// Workers arrive in drawn order, and nobody is overtaken for longer than the delay allows.
TEST(PartialBarrier, NobodyMissesItMoreOftenThanTheDelayAllowsAndItNeverStandsStill) {
  for (std::uint64_t number = 0; number < 200; ++number) {
    SeededNumbers numbers(test::seed(3110000 + number));
    const int workers = 1 + static_cast<int>(numbers.below(6));
    const PartialBarrierPace pace = {.barrier = 1 + static_cast<int>(numbers.below(6)),
                                     .delay = 1 + static_cast<int>(numbers.below(5))};
    PartialBarrier barrier = barrier_of(workers, pace);
    std::set<int> here;
    for (int event = 0; event < 300; ++event) {
      const int worker = static_cast<int>(numbers.below(static_cast<std::uint64_t>(workers)));
      barrier.arrive(worker);
      here.insert(worker);
      if (!barrier.can_pass()) {
        EXPECT_LT(std::ssize(here), workers) << "all are here; seed " << number;
        continue;
      }
      EXPECT_GE(std::ssize(here), std::min(pace.barrier, workers)) << "seed " << number;
      EXPECT_EQ(barrier.pass(), std::vector<int>(here.begin(), here.end())) << "seed " << number;
      here.clear();
      for (int one = 0; one < workers; ++one)
        EXPECT_LE(barrier.age_of(one), pace.delay - 1) << "seed " << number;
    }
  }
}

}  // namespace
}  // namespace paceline::coordination
