#include <gtest/gtest.h>

#include "tests/core/collective/programs.h"

namespace paceline::collective::reduce_direct {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::reduce, "direct");
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
