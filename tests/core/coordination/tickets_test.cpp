#include "paceline/core/coordination/tickets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/core/collective/worlds.h"
#include "tests/core/coordination/long_waits.h"

namespace paceline::coordination::testing {
namespace {

using collective::testing::kShared;
using collective::testing::kTcp;
using test::run_ranks;

TEST(Tickets, OnLinksEachPartOfEachEpochGoesToOneRank) {
  constexpr std::int64_t kParts = 200;
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(3, options, [](Job& job) {
      Communicator& world = job.world();
      Tickets tickets(world, kParts);
      std::vector<std::vector<std::int32_t>> times(2, std::vector<std::int32_t>(kParts));
      for (auto& epoch : times)
        while (const auto part = tickets.next()) ++epoch.at(static_cast<std::size_t>(*part));
      EXPECT_EQ(tickets.epoch(), 2u);
      for (auto& epoch : times) {
        world.all_reduce(buffer_of(epoch)).wait();
        EXPECT_EQ(epoch, std::vector<std::int32_t>(kParts, 1));
      }
    });
  }
}

TEST(Tickets, AnEpochEndsForAllThoughRank0HasEndedItsTickets) {
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(3, options, [](Job& job) {
      auto tickets = std::make_unique<Tickets>(job.world(), 5);
      job.world().barrier().wait();
      int taken = 0;
      if (job.rank() == 0) {
        while (tickets->next()) ++taken;
        tickets.reset();
      } else {
        while (tickets->next()) ++taken;
      }
      EXPECT_EQ(job.world().all_reduce(static_cast<double>(taken)), 5.0);
      if (job.rank() == 0) return;
      try {
        std::ignore = tickets->next();
        ADD_FAILURE() << "nobody deals";
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::peer_lost);
        EXPECT_EQ(error.failure().ranks, std::vector{0});
      }
    });
  }
}

TEST(Tickets, OneRankTakesAllPartsInTheirOrder) {
  run_ranks(1, [](Job& job) {
    Tickets tickets(job.world(), 4);
    for (std::int64_t part = 0; part < 4; ++part) EXPECT_EQ(tickets.next(), part);
    EXPECT_EQ(tickets.next(), std::nullopt);
    EXPECT_EQ(tickets.next(), 0);
    EXPECT_THROW(Tickets(job.world(), -1), Error);
  });
}

TEST(Tickets, WhoWaitsForAPartNamesRank0WhichDealsThemOut) {
  std::atomic<bool> is_mute = false;
  std::latch is_over(1);
  const LongWaits said = long_waits(2, is_mute, [&](Job& job) {
    Tickets tickets(job.world(), 100);
    if (job.rank() == 0) return is_over.wait();
    std::ignore = tickets.next();
    is_mute = true;
    try {
      while (tickets.next()) {
      }
    } catch (const Error&) {
      is_over.count_down();
      throw;
    }
  });
  expect_told(said, 1,
              "Tickets::next() for rank 0, which has not dealt out the next part of epoch 0");
  EXPECT_EQ(said.blamed[1], std::vector{0});
}

}  // namespace
}  // namespace paceline::coordination::testing
