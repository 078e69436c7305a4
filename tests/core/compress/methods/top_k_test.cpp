// Also covers paceline/core/compress/averaging/gathered_average.h and the leader of
// paceline/core/compress/averaging/shared_index_average.h.
#include <gtest/gtest.h>

#include "tests/support/averaging_run.h"

namespace paceline::compress::top_k_claims {
namespace {

using test::AveragingRun;
using test::mean_of;
using test::run_of;

constexpr std::size_t kElements = 1003;

TEST(TopK, LosesNothing) {
  for (const int ranks : {1, 2, 4, 8}) {
    AveragingRun run = run_of("top_k:ratio=0.05", ranks, 1, kElements);
    EXPECT_EQ(lost_over(40, run, ranks, kElements, test::mean_state(ranks)), 0) << ranks;
  }
}

TEST(TopK, SendsIndicesAndValues) {
  AveragingRun run = run_of("top_k:ratio=0.05", 4, 17, 59);
  run.step(test::gradients_of(4, kElements, 1), 1);
  EXPECT_EQ(run.kinds, std::vector{Exchange::Kind::all_gather});
  EXPECT_EQ(run.payload_bytes, 4 * 3 * 8 * 51u);
}

TEST(TopK, OfEverythingIsTheMean) {
  AveragingRun run = run_of("top_k:ratio=1", 4, 1, 100);
  const auto gradients = test::gradients_on_grid(4, 100, 1);
  const auto mean = mean_of(gradients);
  EXPECT_EQ(run.step(gradients, 1).means.front(), std::vector<float>(mean.begin(), mean.end()));
}

TEST(TopKOfALeader, LosesNothing) {
  for (const int ranks : {1, 2, 4, 8}) {
    AveragingRun run = run_of("top_k:ratio=0.05,indices=leader", ranks, 1, kElements);
    EXPECT_EQ(lost_over(40, run, ranks, kElements, test::mean_state(ranks)), 0) << ranks;
  }
}

TEST(TopKOfALeader, WithALowPassKeepsItsResidualOverTheShare) {
  AveragingRun run = run_of("top_k:ratio=0.05,indices=leader,share=0.25", 4, 1, kElements);
  const auto pending = [](AveragingRun& r) {
    auto mean = test::mean_state(4)(r);
    for (double& value : mean) value *= 4;
    return mean;
  };
  EXPECT_LT(lost_over(40, run, 4, kElements, pending), 1e-5);
}

TEST(TopKOfALeader, TakesTheElementsOfAnotherRankInEachStep) {
  AveragingRun run = run_of("top_k:ratio=0.1,indices=leader", 3, 1, 10);
  for (std::uint32_t step = 0; step < 6; ++step) {
    test::Gradients gradients(3, std::vector<float>(10));
    for (std::size_t rank = 0; rank < 3; ++rank) gradients[rank][rank] = 3;
    const auto result = run_of("top_k:ratio=0.1,indices=leader", 3, 1, 10).step(gradients, step);
    std::vector<float> expected(10);
    expected[step % 3] = 1;
    EXPECT_EQ(result.means.front(), expected);
  }
}

TEST(TopKOfALeader, SendsIndicesOnceAndAddsUpValues) {
  AveragingRun run = run_of("top_k:ratio=0.05,indices=leader", 4, 17, 59);
  run.step(test::gradients_of(4, kElements, 1), 1);
  EXPECT_EQ(run.kinds, (std::vector{Exchange::Kind::broadcast, Exchange::Kind::all_reduce}));
  EXPECT_EQ(run.payload_bytes, 3 * 4 * 51u);
  EXPECT_EQ(run.reduced_bytes, 4 * 51u);
}

}  // namespace
}  // namespace paceline::compress::top_k_claims
