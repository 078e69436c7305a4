#include <gtest/gtest.h>

#include "paceline/core/base/seed.h"
#include "paceline/core/membership/handshake/handshake.h"
#include "tests/support/seed.h"

namespace paceline::membership {
namespace {

using PendingConnection = PendingConnections::PendingConnection;

TEST(PendingConnections, AllStayWhileThereAreBothPlacesAndShares) {
  PendingConnections room(6, 3);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(room.enter({i, i % 2 == 0 ? "a" : "b"}), std::nullopt);
  EXPECT_EQ(room.size(), 6u);
}

TEST(PendingConnections, WhoExceedsTheShareOfAnAddressCrowdsOutItsOwnOldest) {
  PendingConnections room(100, 3);
  EXPECT_EQ(room.enter({1000, "other"}), std::nullopt);
  for (int i = 0; i < 50; ++i) {
    const auto gone = room.enter({i, "stranger"});
    EXPECT_EQ(gone, i < 3 ? std::nullopt : std::optional(PendingConnection{i - 3, "stranger"}));
  }
  EXPECT_EQ(room.size(), 4u);
}

TEST(PendingConnections, WithoutAPlaceTheFullestAddressGivesItsOldest) {
  PendingConnections room(6, 4);
  for (const PendingConnection& guest :
       {PendingConnection{0, "a"}, PendingConnection{1, "b"}, PendingConnection{2, "b"},
        PendingConnection{3, "b"}, PendingConnection{4, "c"}, PendingConnection{5, "c"}}) {
    EXPECT_EQ(room.enter(guest), std::nullopt);
  }
  EXPECT_EQ(room.enter({6, "d"}), PendingConnection(1, "b"));
  EXPECT_EQ(room.enter({7, "e"}), PendingConnection(2, "b"))
      << "of b and c, both with two, b's is the older";
  EXPECT_EQ(room.enter({8, "f"}), PendingConnection(4, "c"));
  EXPECT_EQ(room.enter({9, "g"}), PendingConnection(0, "a"))
      << "where all have one, the oldest of all";
}

TEST(PendingConnections, WhoHasLeftMakesRoom) {
  PendingConnections room(2, 1);
  EXPECT_EQ(room.enter({1, "a"}), std::nullopt);
  EXPECT_EQ(room.enter({2, "b"}), std::nullopt);
  room.leave(1);
  room.leave(1);
  EXPECT_EQ(room.enter({3, "a"}), std::nullopt);
  EXPECT_EQ(room.size(), 2u);
}

// If strangers come from fewer addresses than there are places, an address that holds less than an
// even part of the places keeps them until it leaves by itself.
TEST(PendingConnections, NobodyIsCrowdedOutWhoTakesLessThanAnEvenPart) {
  constexpr std::size_t kPlaces = 40, kShare = 16, kStrangers = 9, kOwn = 3;
  static_assert(kOwn < kPlaces / (kStrangers + 1));
  SeededNumbers numbers(test::seed(3));
  PendingConnections room(kPlaces, kShare);
  for (int connection = 0; connection < static_cast<int>(kOwn); ++connection)
    EXPECT_EQ(room.enter({connection, "rank"}), std::nullopt);
  for (int connection = kOwn; connection < 5000; ++connection) {
    const auto gone = room.enter({connection, std::to_string(numbers() % kStrangers)});
    if (gone) {
      ASSERT_NE(gone->address, "rank");
      ASSERT_NE(gone->connection, connection);
    }
    ASSERT_LE(room.size(), kPlaces);
    if (numbers() % 7 == 0) room.leave(static_cast<int>(kOwn + numbers() % 5000));
  }
}

}  // namespace
}  // namespace paceline::membership
