#include "paceline/linear/machines/admm_master.h"

#include <gmock/gmock.h>

namespace paceline::linear {
namespace {

using ::testing::ElementsAre;

// z is the sum itself.
AdmmMaster summing_master(int workers, const AdmmPace& pace) {
  return {workers, 1, pace, [](std::span<double>) {}};
}

TEST(AdmmMaster, WaitsForTheBarrierAndKeepsWhatAbsentWorkersBroughtLast) {
  AdmmMaster master = summing_master(3, {.barrier = 2, .delay = 3});
  EXPECT_FALSE(master.can_update());
  master.receive(2, {1});
  EXPECT_FALSE(master.can_update()) << "one of two";
  EXPECT_THAT(master.awaited(), ElementsAre(0, 1));
  master.receive(0, {10});
  ASSERT_TRUE(master.can_update());
  EXPECT_THAT(master.update(), ElementsAre(0, 2));
  EXPECT_THAT(master.common(), ElementsAre(11)) << "worker 1 counts as 0 before it brings anything";
  EXPECT_THAT(master.ages(), ElementsAre(0, 1, 0));
  EXPECT_FALSE(master.can_update());
  master.receive(2, {2});
  master.receive(0, {20});
  EXPECT_THAT(master.update(), ElementsAre(0, 2));
  EXPECT_THAT(master.common(), ElementsAre(22));
  EXPECT_THAT(master.ages(), ElementsAre(0, 2, 0));
  EXPECT_EQ(master.updates(), 2);
}

TEST(AdmmMaster, NobodyMissesAnUpdateForTheDelaythTimeInARow) {
  AdmmMaster master = summing_master(3, {.barrier = 1, .delay = 2});
  master.receive(0, {1});
  EXPECT_THAT(master.update(), ElementsAre(0));
  master.receive(0, {2});
  master.receive(1, {30});
  EXPECT_FALSE(master.can_update()) << "worker 2 would be two updates old";
  EXPECT_THAT(master.awaited(), ElementsAre(2));
  master.receive(2, {400});
  ASSERT_TRUE(master.can_update());
  EXPECT_THAT(master.update(), ElementsAre(0, 1, 2));
  EXPECT_THAT(master.common(), ElementsAre(432));
}

TEST(AdmmMaster, ABarrierOfMoreThanThereAreMeansAll) {
  AdmmMaster master = summing_master(2, {.barrier = 5, .delay = 100});
  master.receive(0, {1});
  EXPECT_FALSE(master.can_update());
  master.receive(1, {1});
  EXPECT_TRUE(master.can_update());
}

TEST(AdmmMaster, AddsInTheTreeOfReproducibleSums) {
  AdmmMaster master = summing_master(5, {.barrier = 5, .delay = 1});
  const std::vector<double> values = {1e16, 1, -1e16, 1, 1};
  for (int worker = 0; worker < 5; ++worker)
    master.receive(worker, {values[static_cast<std::size_t>(worker)]});
  std::ignore = master.update();
  EXPECT_THAT(master.common(),
              ElementsAre(((values[0] + values[1]) + (values[2] + values[3])) + values[4]));
  EXPECT_NE(master.common()[0], values[0] + values[1] + values[2] + values[3] + values[4]);
}

}  // namespace
}  // namespace paceline::linear
