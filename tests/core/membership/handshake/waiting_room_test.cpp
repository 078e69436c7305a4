#include "paceline/core/membership/handshake/waiting_room.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::membership {
namespace {

using Guest = WaitingRoom::Guest;

TEST(WaitingRoom, AllStayWhileThereAreBothPlacesAndShares) {
  WaitingRoom room(6, 3);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(room.enter({i, i % 2 == 0 ? "a" : "b"}), std::nullopt);
  EXPECT_EQ(room.size(), 6u);
}

TEST(WaitingRoom, WhoExceedsTheShareOfAnAddressCrowdsOutItsOwnOldest) {
  WaitingRoom room(100, 3);
  EXPECT_EQ(room.enter({1000, "other"}), std::nullopt);
  for (int i = 0; i < 50; ++i) {
    const auto gone = room.enter({i, "stranger"});
    EXPECT_EQ(gone, i < 3 ? std::nullopt : std::optional(Guest{i - 3, "stranger"}));
  }
  EXPECT_EQ(room.size(), 4u);
}

TEST(WaitingRoom, WithoutAPlaceTheFullestAddressGivesItsOldest) {
  WaitingRoom room(6, 4);
  for (const Guest& guest :
       {Guest{0, "a"}, Guest{1, "b"}, Guest{2, "b"}, Guest{3, "b"}, Guest{4, "c"}, Guest{5, "c"}}) {
    EXPECT_EQ(room.enter(guest), std::nullopt);
  }
  EXPECT_EQ(room.enter({6, "d"}), Guest(1, "b"));
  EXPECT_EQ(room.enter({7, "e"}), Guest(2, "b")) << "of b and c, both with two, b's is the older";
  EXPECT_EQ(room.enter({8, "f"}), Guest(4, "c"));
  EXPECT_EQ(room.enter({9, "g"}), Guest(0, "a")) << "where all have one, the oldest of all";
}

TEST(WaitingRoom, WhoHasLeftMakesRoom) {
  WaitingRoom room(2, 1);
  EXPECT_EQ(room.enter({1, "a"}), std::nullopt);
  EXPECT_EQ(room.enter({2, "b"}), std::nullopt);
  room.leave(1);
  room.leave(1);
  EXPECT_EQ(room.enter({3, "a"}), std::nullopt);
  EXPECT_EQ(room.size(), 2u);
}

// If strangers come from fewer addresses than there are places, an address that holds less than an
// even part of the places keeps them until it leaves by itself.
TEST(WaitingRoom, NobodyIsCrowdedOutWhoTakesLessThanAnEvenPart) {
  constexpr std::size_t kPlaces = 40, kShare = 16, kStrangers = 9, kOwn = 3;
  static_assert(kOwn < kPlaces / (kStrangers + 1));
  SeededNumbers numbers(test::seed(3));
  WaitingRoom room(kPlaces, kShare);
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
