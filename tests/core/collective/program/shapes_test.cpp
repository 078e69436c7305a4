#include "paceline/core/collective/program/shapes.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/core/collective/programs.h"

namespace paceline::collective {
namespace {

using namespace testing;
using ::testing::ElementsAre;

TEST(Shapes, OfAnAlgorithmThatSeesRanksAloneAreOne) {
  const Algorithm ring = built_in(Operation::all_reduce, "ring");
  for (const int ranks : {1, 2, 12, 13}) {
    EXPECT_THAT(shapes_of(ring, ranks), ElementsAre(Shape{.ranks = ranks})) << ranks;
  }
}

TEST(Shapes, HaveEachRankOnOneHostAndAGridOfAllRanks) {
  Algorithm all = built_in(Operation::all_reduce, "ring");
  all.build = [](const Shape& shape) {  // programs that differ wherever the shape differs
    Program program{.chunks = shape.radix};
    program.rounds.resize(shape.groups.size());
    for (std::size_t i = 0; i < shape.groups.size(); ++i)
      for (const int rank : shape.groups[i]) program.rounds[i].push_back(send(rank, input(0)));
    for (const int length : shape.dimensions) program.rounds.push_back({recv(length, output(0))});
    return program;
  };
  for (int ranks = 1; ranks <= 24; ++ranks) {
    const std::vector<Shape> shapes = shapes_of(all, ranks);
    EXPECT_GE(shapes.size(), 5u);
    for (const Shape& shape : shapes) {
      EXPECT_EQ(shape.ranks, ranks);
      std::vector<int> seen;
      for (const auto& host : shape.groups) {
        EXPECT_FALSE(host.empty()) << to_string(shape);
        seen.insert(seen.end(), host.begin(), host.end());
      }
      std::ranges::sort(seen);
      EXPECT_TRUE(std::ranges::adjacent_find(seen) == seen.end()) << to_string(shape);
      EXPECT_TRUE(seen.empty() || (std::ssize(seen) == ranks && seen.back() == ranks - 1))
          << to_string(shape);
      int product = 1;
      for (const int length : shape.dimensions) product *= length;
      EXPECT_TRUE(shape.dimensions.empty() || product == ranks) << to_string(shape);
    }
  }
}

TEST(Shapes, LeaveOutWhatDoesNotFit) {
  Algorithm picky = built_in(Operation::all_reduce, "ring");
  picky.fits = [](const Shape& shape) { return shape.ranks == 4; };
  EXPECT_TRUE(shapes_of(picky, 5).empty());
  EXPECT_THAT(shapes_of(picky, 4), ElementsAre(Shape{.ranks = 4}));
}

TEST(Roots, AreAllUpTo16AndSomeBeyond) {
  EXPECT_THAT(roots_of(Operation::all_reduce, 9), ElementsAre(0));
  EXPECT_THAT(roots_of(Operation::broadcast, 3), ElementsAre(0, 1, 2));
  EXPECT_EQ(roots_of(Operation::broadcast, 16).size(), 16u);
  EXPECT_THAT(roots_of(Operation::broadcast, 40), ElementsAre(0, 1, 20, 39));
}

}  // namespace
}  // namespace paceline::collective
