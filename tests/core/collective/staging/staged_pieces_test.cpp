#include "paceline/core/collective/staging/staged_pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/support/seed.h"

namespace paceline::collective::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Two chunks of 10 elements, of which a piece has 4, 4 and 2.
std::vector<StagedPiece> pieces_of_two_chunks() {
  std::vector<StagedPiece> pieces;
  for (const ElementRange part : {ElementRange{0, 4}, ElementRange{4, 4}, ElementRange{8, 2}}) {
    const std::vector<ElementRange> both = {part, {10 + part.offset, part.count}};
    pieces.push_back({both, both});
  }
  return pieces;
}

TEST(StagedPieces, APartNeedsThePiecesThatHoldItsElements) {
  const StagedPieces pieces(pieces_of_two_chunks());
  for (std::size_t begin = 0; begin < 20; ++begin) {
    for (std::size_t end = begin; end <= 20; ++end) {
      std::size_t needed = 0;
      for (std::size_t i = begin; i < end; ++i) needed = std::max(needed, i % 10 / 4 + 1);
      EXPECT_EQ(pieces.needed_for({begin, end - begin}), needed) << begin << ".." << end;
    }
  }
}

TEST(StagedPieces, APieceIsOverWithTheLastOfItsElementsInWhateverOrder) {
  std::mt19937_64 draw(test::seed(4471));
  for (int round = 0; round < 100; ++round) {
    StagedPieces pieces(pieces_of_two_chunks());
    std::vector<std::size_t> elements(20), left = {8, 8, 4};
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = i;
    std::ranges::shuffle(elements, draw);
    for (const std::size_t element : elements) {
      const std::size_t piece = element % 10 / 4;
      const auto ended = pieces.ended_by({element, 1});
      const bool is_last = --left[piece] == 0;
      EXPECT_EQ(ended, is_last ? std::vector{piece} : std::vector<std::size_t>{});
    }
    EXPECT_THAT(pieces.rest(), IsEmpty());
  }
}

TEST(StagedPieces, TheRestIsWhatNobodyHasEnded) {
  StagedPieces pieces(pieces_of_two_chunks());
  EXPECT_THAT(pieces.ended_by({4, 6}), IsEmpty());  // half of two pieces
  EXPECT_THAT(pieces.ended_by({12, 6}), ElementsAre(1));
  EXPECT_THAT(pieces.rest(), ElementsAre(0, 2));
  EXPECT_THAT(pieces.rest(), IsEmpty());
}

}  // namespace
}  // namespace paceline::collective::testing
