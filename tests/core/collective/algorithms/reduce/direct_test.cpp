#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective::reduce_direct {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::reduce, "direct");
}

TEST(DirectReduce, IsThisPictureFor3RanksAndRoot0) {
  EXPECT_EQ(to_string(algorithm().build({.ranks = 3, .rank = 1})),
            "round 0: send to 2: input(2)\n"
            "         recv from 2: scratch(2, 1)\n"
            "         send to 0: input(0)\n"
            "         recv from 0: scratch(0, 1)\n"
            "round 1: reduce: scratch(0, 1) = scratch(0, 1) OP input(1)\n"
            "round 2: reduce: scratch(1, 1) = scratch(0, 1) OP scratch(2, 1), complete\n"
            "round 3: send to 0: scratch(1, 1)\n");
}

TEST(DirectReduce, NoRankSendsMoreThanTheBuffer) {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    for (const int root : {0, ranks - 1}) {
      std::vector<long> wanted(static_cast<std::size_t>(ranks), ranks);
      wanted[static_cast<std::size_t>(root)] = ranks - 1;
      EXPECT_EQ(proof_of(algorithm(), ranks, root).sent_chunks, wanted);
    }
  }
}

}  // namespace
}  // namespace paceline::collective::reduce_direct
