#include "paceline/app/launch/ending/successions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "tests/app/launch/ending/counting_keeper.h"

namespace paceline::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kRanksThen = 2, kServersThen = 3;

Successions successions(int most = 3) {
  return {{.ranks = kRanksThen, .servers = kServersThen, .most = most},
          counting_keeper(kRanksThen, kServersThen, 2)};
}

Successions linked(int most = 3) {
  Successions all = successions(most);
  for (int member = 0; member < kRanksThen + kServersThen; ++member) all.on_linked(member);
  return all;
}

TEST(Successions, NoDeathIsBorneUntilAllOfTheBeginningAreLinked) {
  Successions all = successions();
  for (int member = 0; member < kRanksThen + kServersThen; ++member) {
    EXPECT_FALSE(all.bears_loss_of(3)) << member;
    all.on_linked(member);
    all.on_linked(member);  // once more is nothing more
  }
  EXPECT_TRUE(all.bears_loss_of(3));
}

TEST(Successions, ANewcomerIsNumberedAfterAllAndReadyWhenItSaysSo) {
  Successions all = linked();
  EXPECT_EQ(all.on_death(3, true), 5);
  EXPECT_TRUE(all.take_map());
  EXPECT_FALSE(all.bears_loss_of(2));
  EXPECT_TRUE(all.bears_loss_of(5)) << "it has nothing that others lack";
  all.on_linked(5);
  EXPECT_THAT(all.take_ready(), IsEmpty());
  all.on_report(5, {});
  EXPECT_THAT(all.take_ready(), ElementsAre(5));
  EXPECT_THAT(all.take_ready(), IsEmpty()) << "it is told once";
  EXPECT_TRUE(all.take_map());
  EXPECT_TRUE(all.bears_loss_of(2));
  EXPECT_EQ(all.on_death(2, true), 6);
}

TEST(Successions, NoMoreAreStartedThanMayBeAndTheJobGoesOnAllTheSame) {
  Successions all = linked(/*most=*/2);
  EXPECT_EQ(all.on_death(3, true), 5);
  EXPECT_EQ(all.on_death(5, true), 6) << "one that died while it came";
  EXPECT_TRUE(all.bears_loss_of(6));
  EXPECT_EQ(all.on_death(6, true), std::nullopt);
  EXPECT_FALSE(all.bears_loss_of(2));
  EXPECT_EQ(linked(0).on_death(3, true), std::nullopt);
}

TEST(Successions, NobodyFollowsWhereNobodyIsNeededAnyMore) {
  Successions all = linked();
  EXPECT_EQ(all.on_death(3, false), std::nullopt);
  EXPECT_TRUE(all.take_map()) << "all hear of it";
}

}  // namespace
}  // namespace paceline::launch
