#include "paceline/app/cli/programs/programs_proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const auto kNobodyLooks = [](double) {};

Selection only(Operation operation) {
  return of_operation(std::string(name_of(operation)));
}

TEST(ProgramsProof, CountsEachRankCountAndRootOnce) {
  const Selection linear = named(only(Operation::gather), "linear");
  const Proofs proofs = prove_all(linear, {1, 2, 3, 16, 17}, 2, kNobodyLooks);
  EXPECT_EQ(proofs.passed, 1 + 2 + 3 + 16 + 4);
  EXPECT_TRUE(proofs.failed.empty());
}

TEST(ProgramsProof, CountsEachMixingGraphForTheRankCountsThatItHas) {
  const Selection torus = named(of_operation("neighbours"), "torus");
  EXPECT_EQ(prove_all(torus, {2, 3, 4, 5, 6}, 2, kNobodyLooks).passed, 2);
  Selection wrong = of_operation("neighbours");
  wrong.graphs.front().is_symmetric = false;  // no claim
  wrong.graphs.back().rounds = [](int) { return 0; };
  const Proofs proofs = prove_all(wrong, {4}, 2, kNobodyLooks);
  EXPECT_EQ(proofs.passed, static_cast<long>(wrong.graphs.size()) - 1);
  EXPECT_THAT(proofs.failed, ElementsAre(HasSubstr("neighbours torus, 4 ranks")));
}

TEST(ProgramsProof, IsTheSameOnAnyNumberOfThreads) {
  Selection catalogue = of_operation("");
  catalogue.algorithms.front().closed_form = [](const collective::Shape&) {
    return collective::Counters{};
  };
  const Proofs alone = prove_all(catalogue, {1, 2, 5, 6}, 1, kNobodyLooks);
  EXPECT_GT(alone.passed, 0);
  for (const int threads : {2, 5}) {
    const Proofs shared = prove_all(catalogue, {1, 2, 5, 6}, threads, kNobodyLooks);
    EXPECT_EQ(shared.passed, alone.passed);
    EXPECT_EQ(shared.failed, alone.failed);
  }
}

TEST(ProgramsProof, TellsEachFailureInOrderWithOperationAlgorithmRanksAndRoot) {
  Selection catalogue = named(only(Operation::broadcast), "binomial");
  for (auto& algorithm : catalogue.algorithms) {
    algorithm.closed_form = [](const collective::Shape& shape) {
      return collective::Counters{
          .depth = 1, .messages = shape.ranks - 1, .chunks = shape.ranks - 1};
    };
  }
  const Proofs proofs = prove_all(catalogue, {2, 3}, 2, kNobodyLooks);
  EXPECT_EQ(proofs.passed, 2);
  ASSERT_EQ(proofs.failed.size(), 3u);
  EXPECT_THAT(proofs.failed, Each(HasSubstr("but the algorithm states")));
  EXPECT_THAT(proofs.failed[2], HasSubstr("broadcast binomial, 3 ranks, root 2: takes 2 rounds"));
}

TEST(ProgramsProof, EndsItsProgressAtTheWhole) {
  double last = -1;
  bool grows = true;
  prove_all(only(Operation::scatter), {1, 2, 3, 4, 5}, 2, [&](double part) {
    grows = grows && part >= last;
    last = part;
  });
  EXPECT_TRUE(grows);
  EXPECT_EQ(last, 1);
}

}  // namespace
}  // namespace paceline::cli
