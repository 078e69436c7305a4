#include <gtest/gtest.h>

#include <set>

#include "tests/core/collective/programs.h"

namespace paceline::collective::barrier_dissemination {
namespace {

using namespace testing;

Algorithm algorithm() {
  return built_in(Operation::barrier, "dissemination");
}

TEST(DisseminationBarrier, LetsNobodyGoBeforeItHasTheWordOfEveryRank) {
  for (int ranks = 1; ranks <= 33; ++ranks) {
    for (const Program& program : programs_of(algorithm(), ranks)) {
      std::set<int> here;
      for (const Round& round : program.rounds) {
        for (const Step& step : round) {
          if (step.kind == Step::Kind::recv || step.kind == Step::Kind::copy)
            here.insert(step.target.chunk);
        }
      }
      EXPECT_EQ(here.size(), static_cast<std::size_t>(ranks));
    }
  }
}

TEST(DisseminationBarrier, SendsOneMessageARound) {
  for (int ranks = 2; ranks <= 33; ++ranks) {
    const Proof proof = proof_of(algorithm(), ranks);
    EXPECT_EQ(proof.messages, static_cast<long>(ranks) * proof.rounds);
    EXPECT_LT(1 << (proof.rounds - 1), ranks);
    EXPECT_GE(1 << proof.rounds, ranks);
  }
}

}  // namespace
}  // namespace paceline::collective::barrier_dissemination
