#include "paceline/core/collective/building/grid.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/core/collective/grids.h"

namespace paceline::collective {
namespace {

using namespace testing;

std::vector<Program> on_grid(const std::vector<int>& dimensions, const char* reduce_scatter,
                             const char* all_gather) {
  std::vector<Program> programs;
  for (int rank = 0; rank < ranks_of(dimensions); ++rank) {
    programs.push_back(all_reduce_on_grid(dimensions, rank,
                                          built_in(Operation::reduce_scatter, reduce_scatter),
                                          built_in(Operation::all_gather, all_gather)));
  }
  return programs;
}

Proof proof_on_grid(const std::vector<int>& dimensions, const char* reduce_scatter,
                    const char* all_gather) {
  const Algorithm plain{
      .operation = Operation::all_reduce, .name = "grid", .determinism = DeterminismClass::d2};
  const auto programs = on_grid(dimensions, reduce_scatter, all_gather);
  return proof_of(with_programs(plain, programs), static_cast<int>(programs.size()));
}

TEST(AllReduceOnGrid, IsRightForEveryFactorisation) {
  for (int ranks = 1; ranks <= (test::kSanitized ? 12 : 24); ++ranks) {
    for (const auto& dimensions : factorisations(ranks)) {
      proof_on_grid(dimensions, "ring", "ring");
      proof_on_grid(dimensions, "direct", "direct");
      proof_on_grid(dimensions, "direct", "ring");
    }
  }
}

TEST(AllReduceOnGrid, SendsTheLeastThatCanDoWhateverTheDimensions) {
  for (const int ranks : {2, 12, 30, 49}) {
    for (const auto& dimensions : factorisations(ranks)) {
      for (const auto* name : {"ring", "direct"}) {
        const Proof proof = proof_on_grid(dimensions, name, name);
        EXPECT_EQ(proof.sent_chunks,
                  std::vector<long>(static_cast<std::size_t>(ranks), 2 * (ranks - 1)));
      }
    }
  }
}

TEST(AllReduceOnGrid, TakesTheRoundsOfItsDimensions) {
  for (const auto& dimensions : {std::vector{3, 5, 2}, {4, 4, 4}, {2, 2, 2, 2, 2}, {7, 9}}) {
    int steps = 0;
    for (const int size : dimensions) steps += size - 1;
    EXPECT_EQ(proof_on_grid(dimensions, "ring", "ring").rounds, 2 * steps);
  }
}

TEST(AllReduceOnGrid, DimensionsOfSizeOneDoNotMatter) {
  EXPECT_EQ(on_grid({1, 3, 1, 2}, "ring", "direct"), on_grid({3, 2}, "ring", "direct"));
  EXPECT_EQ(
      on_grid({1, 1}, "ring", "ring"),
      (std::vector<Program>{{.chunks = 1, .rounds = {{completing(copy(input(0), output(0)))}}}}));
}

TEST(AllReduceOnGrid, OfOneDimensionAndDirectIsDirect) {
  for (int ranks = 1; ranks <= 9; ++ranks)
    EXPECT_EQ(on_grid({ranks}, "direct", "direct"),
              programs_of(built_in(Operation::all_reduce, "direct"), ranks));
}

TEST(AllReduceOnGrid, EveryRankCompletesOneChunk) {
  for (const Program& program : on_grid({3, 4}, "direct", "direct")) {
    std::ptrdiff_t completed = 0;
    for (const Round& round : program.rounds)
      completed += std::ranges::count_if(round, [](const Step& step) { return step.completes; });
    EXPECT_EQ(completed, 1);
  }
}

}  // namespace
}  // namespace paceline::collective
