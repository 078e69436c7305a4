#include "paceline/app/cli/programs/programs_proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

const auto kNobodyLooks = [](double) {};

collective::Catalogue of_operation(Operation operation) {
  collective::Catalogue catalogue = collective::built_in_algorithms();
  std::erase_if(catalogue, [&](const auto& algorithm) { return algorithm.operation != operation; });
  return catalogue;
}

TEST(ProgramsProof, CountsEachRankCountAndRootOnce) {
  const auto gather = of_operation(Operation::gather);
  const collective::Catalogue linear = {*find(gather, Operation::gather, "linear")};
  const Proofs proofs = prove_all(linear, {1, 2, 3, 16, 17}, 2, kNobodyLooks);
  EXPECT_EQ(proofs.passed, 1 + 2 + 3 + 16 + 4);
  EXPECT_TRUE(proofs.failed.empty());
}

TEST(ProgramsProof, IsTheSameOnAnyNumberOfThreads) {
  collective::Catalogue catalogue = collective::built_in_algorithms();
  catalogue.front().closed_form = [](const collective::Shape&) { return collective::Counters{}; };
  const Proofs alone = prove_all(catalogue, {1, 2, 5, 6}, 1, kNobodyLooks);
  EXPECT_GT(alone.passed, 0);
  for (const int threads : {2, 5}) {
    const Proofs shared = prove_all(catalogue, {1, 2, 5, 6}, threads, kNobodyLooks);
    EXPECT_EQ(shared.passed, alone.passed);
    EXPECT_EQ(shared.failed, alone.failed);
  }
}

TEST(ProgramsProof, TellsEachFailureInOrderWithOperationAlgorithmRanksAndRoot) {
  collective::Catalogue catalogue = of_operation(Operation::broadcast);
  for (auto& algorithm : catalogue) {
    algorithm.closed_form = [](const collective::Shape& shape) {
      return collective::Counters{
          .depth = 1, .messages = shape.ranks - 1, .chunks = shape.ranks - 1};
    };
  }
  std::erase_if(catalogue, [](const auto& a) { return a.name != "binomial"; });
  const Proofs proofs = prove_all(catalogue, {2, 3}, 2, kNobodyLooks);
  EXPECT_EQ(proofs.passed, 2);
  ASSERT_EQ(proofs.failed.size(), 3u);
  EXPECT_THAT(proofs.failed, Each(HasSubstr("but the algorithm states")));
  EXPECT_THAT(proofs.failed[2], HasSubstr("broadcast binomial, 3 ranks, root 2: takes 2 rounds"));
}

TEST(ProgramsProof, EndsItsProgressAtTheWhole) {
  double last = -1;
  bool grows = true;
  prove_all(of_operation(Operation::scatter), {1, 2, 3, 4, 5}, 2, [&](double part) {
    grows = grows && part >= last;
    last = part;
  });
  EXPECT_TRUE(grows);
  EXPECT_EQ(last, 1);
}

}  // namespace
}  // namespace paceline::cli
