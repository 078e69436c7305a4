#include "paceline/core/transport/shared/memory_offers.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/shared_memory.h"

namespace paceline::transport {
namespace {

using namespace std::chrono_literals;
using Offering = SharedMedium::Offering;

// MemoryOffers to a peer that is played by the test.
class Peer {
 public:
  void add(std::uint64_t segment) { offers.add(segment, test::shared_memory_of(4096)); }
  // Waits for the next try, which the poller's timers make.
  bool wait_for_tries(std::size_t count) {
    const Deadline deadline = Deadline::in(10s);
    while (tries.size() < count && !deadline.passed()) poller.wait(deadline);
    return tries.size() == count;
  }

  Offering next = Offering::on_its_way;
  std::vector<std::uint64_t> tries, withheld;
  Poller poller;
  MemoryOffers offers{poller,
                      [this](std::uint64_t segment, const MemoryOffers::Memory&) {
                        tries.push_back(segment);
                        return next;
                      },
                      [this](std::uint64_t segment) { withheld.push_back(segment); }};
};

TEST(MemoryOffers, AnOfferStandsWhenThePeerSaysThatItHasTheMemory) {
  Peer peer;
  EXPECT_EQ(peer.offers.state(7), Offered::withheld) << "it was never offered";
  peer.add(7);
  EXPECT_EQ(peer.offers.state(7), Offered::awaited);
  peer.offers.answered(8, true);
  EXPECT_EQ(peer.offers.state(7), Offered::awaited);
  peer.offers.answered(7, true);
  EXPECT_EQ(peer.offers.state(7), Offered::had);
  EXPECT_EQ(peer.tries, std::vector<std::uint64_t>{7});
}

TEST(MemoryOffers, AnOfferForWhichThereIsNoRoomOnTheWayIsMadeAgain) {
  Peer peer;
  peer.next = Offering::later;
  peer.add(7);
  ASSERT_TRUE(peer.wait_for_tries(4));
  EXPECT_EQ(peer.offers.state(7), Offered::awaited);
  peer.next = Offering::on_its_way;
  ASSERT_TRUE(peer.wait_for_tries(5));
  peer.poller.wait(Deadline::in(3 * MemoryOffers::kLatest));
  EXPECT_EQ(peer.tries.size(), 5U) << "it is on its way, and the peer will answer";
  EXPECT_TRUE(peer.withheld.empty());
}

TEST(MemoryOffers, AnOfferThatAPeerCannotTakeIsMadeAgainAndThenWithheld) {
  Peer peer;
  peer.add(7);
  for (std::size_t lost = 1; lost < MemoryOffers::kMostLost; ++lost) {
    peer.offers.answered(7, false);
    ASSERT_TRUE(peer.wait_for_tries(lost + 1));
  }
  EXPECT_TRUE(peer.withheld.empty());
  peer.offers.answered(7, false);
  EXPECT_EQ(peer.withheld, std::vector<std::uint64_t>{7});
  EXPECT_EQ(peer.offers.state(7), Offered::withheld);
}

TEST(MemoryOffers, AnOfferThatTheSystemForbidsIsWithheldSoon) {
  Peer peer;
  peer.next = Offering::refused;
  peer.add(7);
  ASSERT_TRUE(peer.wait_for_tries(MemoryOffers::kMostLost));
  EXPECT_EQ(peer.withheld, std::vector<std::uint64_t>{7});
}

TEST(MemoryOffers, WhatHasNoMemoryIsWithheldAtOnce) {
  Peer peer;
  peer.offers.add(7, nullptr);
  EXPECT_EQ(peer.withheld, std::vector<std::uint64_t>{7});
  EXPECT_TRUE(peer.tries.empty());
}

TEST(MemoryOffers, AnOfferThatWasTakenBackIsNotMadeAgain) {
  Peer peer;
  peer.next = Offering::later;
  peer.add(7);
  peer.add(8);
  peer.offers.remove(7);
  ASSERT_TRUE(peer.wait_for_tries(3));
  EXPECT_EQ(peer.tries, (std::vector<std::uint64_t>{7, 8, 8}));
}

}  // namespace
}  // namespace paceline::transport
