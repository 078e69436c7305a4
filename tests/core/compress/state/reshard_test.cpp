#include "paceline/core/compress/state/reshard.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/averaging_run.h"

namespace paceline::compress {
namespace {

using Sharing = StateView::Sharing;

test::Gradients on_all(Sharing sharing, const test::Gradients& former, int ranks) {
  test::Gradients all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(resharded(sharing, former, ranks, rank));
  return all;
}

TEST(Resharded, KeepsTheMeanOverTheRanks) {
  for (int before = 1; before <= 9; ++before) {
    const auto former = test::gradients_of(before, 100, 1);
    const auto mean = test::mean_of(former);
    for (int ranks = 1; ranks <= 9; ++ranks) {
      const auto now = test::mean_of(on_all(Sharing::own, former, ranks));
      for (std::size_t i = 0; i < 100; ++i)
        ASSERT_NEAR(now[i], mean[i], 1e-6) << before << " -> " << ranks;
    }
  }
}

TEST(Resharded, CutsChunksAnewAndGivesTheSameToAll) {
  std::vector<float> whole(45);
  for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<float>(i);
  EXPECT_EQ(on_all(Sharing::equal, {whole, whole}, 3), test::Gradients(3, whole));
  for (int before = 1; before <= 7; ++before) {
    const auto former = on_all(Sharing::chunk, {whole}, before);
    for (int ranks = 1; ranks <= 7; ++ranks)
      EXPECT_EQ(on_all(Sharing::chunk, former, ranks), on_all(Sharing::chunk, {whole}, ranks));
  }
}

// The whole of it: 1-bit signs on 4 ranks go on on 2, and nothing is lost.
TEST(Resharded, CarriesARunOverToFewerRanks) {
  constexpr std::size_t kElements = 1003;
  const auto make = [&](int ranks) { return test::run_of("ef_sign:path=owners", ranks, 17, 59); };
  test::AveragingRun four = make(4), two = make(2);
  std::vector<double> balance(kElements);
  const auto run = [&](test::AveragingRun& averaging, int ranks, std::uint32_t first) {
    for (std::uint32_t step = first; step < first + 20; ++step) {
      const auto gradients = test::gradients_on_grid(ranks, kElements, step);
      const auto mean = test::mean_of(gradients);
      const auto result = averaging.step(gradients, step).means.front();
      for (std::size_t i = 0; i < kElements; ++i)
        balance[i] += static_cast<double>(result[i]) - mean[i];
    }
  };
  run(four, 4, 0);
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<std::vector<float>> state;
    const auto views = two[rank].state();
    for (std::size_t i = 0; i < views.size(); ++i) {
      test::Gradients former;
      for (int r = 0; r < 4; ++r) former.push_back(four.state(r)[i]);
      state.push_back(resharded(views[i].sharing, former, 2, rank));
    }
    two.restore(rank, state);
  }
  run(two, 2, 20);
  const auto residual = test::mean_state(2)(two);
  auto owners = two.values(0, "owner_residual");
  const auto second = two.values(1, "owner_residual");
  owners.insert(owners.end(), second.begin(), second.end());
  for (std::size_t i = 0; i < kElements; ++i)
    ASSERT_NEAR(balance[i] + residual[i] + static_cast<double>(owners[i]), 0, 2e-5);
}

}  // namespace
}  // namespace paceline::compress
