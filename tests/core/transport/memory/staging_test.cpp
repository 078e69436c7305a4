#include "paceline/core/transport/memory/staging.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "paceline/core/base/seed.h"
#include "tests/support/pattern.h"
#include "tests/support/seed.h"

namespace paceline::transport {
namespace {

using test::pattern;

TEST(Staging, TakesNothingBeforeTheFirstCopy) {
  Staging staging(4096);
  EXPECT_EQ(staging.memory(), nullptr);
  EXPECT_TRUE(staging.copy(pattern(10, 1)));
  EXPECT_NE(staging.memory(), nullptr);
}

TEST(Staging, PiecesAreCopiesThatNeverOverlapAndRoomComesBackWhole) {
  constexpr std::size_t kBytes = 64 << 10;
  Staging staging(kBytes);
  struct Held {
    Staging::Piece piece;
    std::vector<std::byte> content;
  };
  std::vector<Held> held;
  SeededNumbers numbers(test::seed(3));
  const auto intact = [&](const Held& h) {
    return std::ranges::equal(staging.memory()->bytes().subspan(h.piece.offset, h.piece.bytes),
                              h.content);
  };
  bool was_full = false;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    if (numbers.below(2) == 0 && !held.empty()) {
      const auto which = held.begin() + static_cast<std::ptrdiff_t>(numbers.below(held.size()));
      ASSERT_TRUE(intact(*which));
      staging.give_back(which->piece);
      held.erase(which);
    } else {
      const auto content = pattern(1 + numbers.below(9000), i);
      const auto piece = staging.copy(content);
      was_full = was_full || !piece;
      if (piece) held.push_back({*piece, content});
    }
  }
  EXPECT_TRUE(was_full);
  EXPECT_TRUE(std::ranges::all_of(held, intact));
  for (const Held& h : held) staging.give_back(h.piece);
  EXPECT_TRUE(staging.copy(pattern(kBytes, 1))) << "what was given back is one piece again";
}

TEST(Staging, WhatIsTooLongOrEmptyIsNotTaken) {
  Staging staging(4096);
  EXPECT_FALSE(staging.copy(pattern(4097, 1)));
  EXPECT_FALSE(staging.copy({}));
  EXPECT_TRUE(staging.copy(pattern(4096, 1)));
  EXPECT_FALSE(staging.copy(pattern(1, 1)));
}

}  // namespace
}  // namespace paceline::transport
