#include "paceline/core/server/vectors/portion_deal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

using testing::Optional;

TEST(PortionDeal, GivesEachPortionOnceUntilNoneIsLeftAndThenCopies) {
  PortionDeal deal(4, 10);
  EXPECT_TRUE(deal.is_over());
  deal.begin();
  for (int worker = 0; worker < 4; ++worker) EXPECT_THAT(deal.next(worker), Optional(worker));
  EXPECT_TRUE(deal.take(0, 1));
  EXPECT_THAT(deal.next(0), Optional(1)) << "the lowest of those with one copy";
  EXPECT_THAT(deal.next(0), Optional(2)) << "it has asked again, and computes 1 already";
  EXPECT_TRUE(deal.take(1, 1));
  EXPECT_THAT(deal.next(1), Optional(3)) << "two compute 2";
  EXPECT_EQ(deal.copies(), 3);
  EXPECT_TRUE(deal.take(2, 1));
  EXPECT_FALSE(deal.take(2, 5)) << "the first result counts";
  EXPECT_EQ(deal.next(3), std::nullopt) << "it computes what is left";
  EXPECT_TRUE(deal.take(3, 1));
  EXPECT_TRUE(deal.is_over());
  EXPECT_EQ(deal.sum(), 4);
  EXPECT_FALSE(deal.take(9, 1)) << "there is no such portion";
}

TEST(PortionDeal, GivesNothingBeyondTheWindowOfTheLowestThatIsNotDone) {
  PortionDeal deal(10, 3);
  deal.begin();
  for (int worker = 0; worker < 3; ++worker) EXPECT_THAT(deal.next(worker), Optional(worker));
  EXPECT_TRUE(deal.take(1, 1));
  EXPECT_TRUE(deal.take(2, 1));
  EXPECT_THAT(deal.next(1), Optional(0)) << "a copy: 3 lies beyond";
  EXPECT_TRUE(deal.take(0, 1));
  EXPECT_THAT(deal.next(1), Optional(3));
}

TEST(PortionDeal, APortionOfADeadWorkerIsGivenToTheNextOneThatIsFree) {
  PortionDeal deal(4, 10);
  deal.begin();
  EXPECT_THAT(deal.next(0), Optional(0));
  EXPECT_THAT(deal.next(1), Optional(1));
  deal.lose(0);
  EXPECT_THAT(deal.next(2), Optional(0));
  EXPECT_THAT(deal.next(3), Optional(2));
}

TEST(PortionDeal, WhoeverDiesAndWhateverIsLateAllLossesAreInTheSumInOrder) {
  SeededNumbers numbers(test::seed(4600000));
  for (int round = 0; round < 300; ++round) {
    const auto portions = static_cast<std::int64_t>(1 + numbers.below(30));
    const auto window = static_cast<std::int64_t>(1 + numbers.below(12));
    const int workers = 1 + static_cast<int>(numbers.below(5));
    PortionDeal deal(portions, window);
    double expected = 0;
    const auto loss_of = [](std::int64_t portion) { return 1 / std::sqrt(2.0 + 7.0 * portion); };
    for (std::int64_t i = 0; i < portions; ++i) expected += loss_of(i);
    deal.begin();
    std::multimap<int, std::int64_t> busy;
    std::set<std::int64_t> done;
    for (int turn = 0; !deal.is_over(); ++turn) {
      ASSERT_LT(turn, 10'000) << "it makes no progress";
      const int worker = static_cast<int>(numbers.below(static_cast<std::uint64_t>(workers)));
      if (numbers.below(20) == 0) {  // it dies, and another one takes its number
        deal.lose(worker);
        busy.erase(worker);
      } else if (busy.count(worker) > 0 && numbers.below(2) == 0) {
        const auto first = busy.find(worker);
        EXPECT_EQ(deal.take(first->second, loss_of(first->second)),
                  done.insert(first->second).second);
        busy.erase(first);
      } else if (const auto portion = deal.next(worker)) {
        std::int64_t lowest = 0;
        while (done.contains(lowest)) ++lowest;
        EXPECT_LT(*portion, lowest + window);
        EXPECT_FALSE(done.contains(*portion));
        busy.emplace(worker, *portion);
      }
    }
    EXPECT_EQ(deal.sum(), expected);
  }
}

TEST(PortionDeal, TellsTheFirstLossThatIsNoNumber) {
  PortionDeal deal(3, 10);
  deal.begin();
  EXPECT_TRUE(deal.take(0, 1));
  EXPECT_TRUE(deal.take(2, std::numeric_limits<double>::infinity()));
  EXPECT_TRUE(deal.take(1, std::nan("")));
  EXPECT_THAT(deal.first_not_finite(), Optional(1));
}

}  // namespace
}  // namespace paceline::server
