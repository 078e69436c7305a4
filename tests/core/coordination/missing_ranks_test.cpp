#include "paceline/core/coordination/missing_ranks.h"

#include <gtest/gtest.h>

#include "tests/support/local_world.h"

namespace paceline::coordination {
namespace {

TEST(MissingRanks, AreThoseOfTheAnswerInNumbersOfTheJobOrRank0WithoutOne) {
  test::run_ranks(4, [](Job& job) {
    const auto backwards = job.world().split(0, -job.rank());
    MissingRanks missing;
    EXPECT_EQ(missing.awaited(*backwards, "come").text(4), "rank 3, which does not answer");
    missing.hear(MissingRanks::answer(7, {0, 1}));
    EXPECT_TRUE(missing.are_known());
    EXPECT_EQ(missing.awaited(*backwards, "come").text(4), "ranks 2, 3, which have not come");
    missing.hear(MissingRanks::answer(7, {}));
    EXPECT_TRUE(missing.are_known()) << "nobody is missing";
    EXPECT_TRUE(missing.awaited(*backwards, "come").blamed().empty());
    missing.hear(MissingRanks::answer(7, {-1, 4}));
    EXPECT_TRUE(missing.awaited(*backwards, "come").blamed().empty()) << "there are no such ranks";
    missing.ask();
    EXPECT_FALSE(missing.are_known());
    job.world().barrier().wait();
  });
}

}  // namespace
}  // namespace paceline::coordination
