#include <gtest/gtest.h>

#include "tests/core/collective/grids.h"
#include "tests/support/nightly.h"

namespace paceline::collective::all_reduce_torus_2d {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::all_reduce, "torus_2d");
}

TEST(Torus2dAllReduce, IsBlueconnectInTwoDimensions) {
  for (int ranks = 1; ranks <= (test::is_brief() ? 24 : 64); ++ranks) {
    for (int width = 1; width <= ranks; ++width) {
      if (ranks % width != 0) continue;
      const Shape torus = on_grid_of({width, ranks / width});
      EXPECT_EQ(programs_of(algorithm(), torus),
                programs_of(built_in(Operation::all_reduce, "blueconnect"), torus));
    }
  }
}

TEST(Torus2dAllReduce, IsAsSquareAsCanBe) {
  for (const auto& [ranks, width] : {std::pair(12, 3), {16, 4}, {35, 5}, {62, 2}, {64, 8}})
    EXPECT_EQ(programs_of(algorithm(), ranks),
              programs_of(algorithm(), on_grid_of({width, ranks / width})));
  EXPECT_EQ(proof_of(algorithm(), 16).rounds, 2 * (3 + 3)) << "the ring takes 30";
  EXPECT_EQ(proof_of(algorithm(), 13).rounds, 2 * 12) << "of a prime number it is the ring";
}

TEST(Torus2dAllReduce, ARankSpeaksToFourNeighboursAlone) {
  const auto programs = programs_of(algorithm(), on_grid_of({4, 5}));
  for (int rank = 0; rank < 20; ++rank) {
    const int x = rank % 4, y = rank / 4;
    for (const Round& round : programs[static_cast<std::size_t>(rank)].rounds) {
      for (const Step& step : round) {
        if (step.peer < 0) continue;
        const int across = (step.peer % 4 - x + 4) % 4, down = (step.peer / 4 - y + 5) % 5;
        EXPECT_TRUE((down == 0 && (across == 1 || across == 3)) ||
                    (across == 0 && (down == 1 || down == 4)));
      }
    }
  }
}

TEST(Torus2dAllReduce, HasTwoDimensions) {
  EXPECT_TRUE(algorithm().fits({.ranks = 12, .dimensions = {12, 1}}));
  EXPECT_FALSE(algorithm().fits({.ranks = 12, .dimensions = {12}}));
  EXPECT_FALSE(algorithm().fits({.ranks = 12, .dimensions = {2, 2, 3}}));
}

}  // namespace
}  // namespace paceline::collective::all_reduce_torus_2d
