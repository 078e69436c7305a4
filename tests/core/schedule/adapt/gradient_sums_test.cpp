#include "paceline/core/schedule/adapt/gradient_sums.h"

#include <gtest/gtest.h>

#include <cmath>

#include "paceline/core/compress/menu/offers.h"
#include "tests/support/averaging_run.h"
#include "tests/support/local_world.h"

namespace paceline::schedule {
namespace {

compress::Compression parsed(std::string_view text) {
  return compress::parse_compression(text, compress::built_in_methods()).value();
}

const std::vector<Tensor> kTensors = {{.bytes = 4 * 2048, .rows = 32}, {.bytes = 400, .rows = 1}};

// In each step another one.
std::vector<float> gradient(int rank, int step) {
  return test::gradients_on_grid(1, 2048, static_cast<std::uint64_t>(100 * step + rank)).front();
}

TEST(GradientSums, AreOpenInTheLastStepsBeforeALook) {
  GradientSums sums(parsed("top_k:ratio=0.01/0.1,choose_every=25"), kTensors);
  int looks = 0, open = 0;
  for (int step = 0; step < 100; ++step) {
    open += sums.is_open();
    looks += sums.end_step();
    EXPECT_EQ(sums.steps(), static_cast<std::size_t>(step + 1) % 25);
  }
  EXPECT_EQ(looks, 4);
  EXPECT_EQ(open, 4 * static_cast<int>(GradientSums::kSteps));
}

TEST(GradientSums, ShowWhatEachRankWouldLoseOfItsSumAllTogether) {
  const auto compression = parsed("top_k:ratio=0.01/0.1,min_compress_bytes=0");
  constexpr int kRanks = 3, kSteps = 4;
  double error = 0, squared_norm = 0;
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<float> sum(2048);
    for (int step = 0; step < kSteps; ++step) {
      const auto one = gradient(rank, step);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
    }
    error += compress::tried_offers(compression, {.rows = 32, .columns = 64}, sum)[1].error;
    for (const double v : sum) squared_norm += v * v;
  }
  test::run_ranks(kRanks, [&](Job& job) {
    GradientSums sums(compression, kTensors);
    for (const bool again : {false, true}) {
      for (int step = 0; step < kSteps && !again; ++step) sums.add(0, gradient(job.rank(), step));
      const Look look = sums.look(job.world());
      ASSERT_EQ(look.menus.size(), 2u);
      EXPECT_NEAR(look.menus[0][1].error, again ? 0 : error, 1e-9 * error);
      EXPECT_NEAR(look.norms[0], again ? 0 : std::sqrt(squared_norm), 1e-9 * squared_norm);
      EXPECT_EQ(look.menus[1].size(), 1u) << "a vector travels whole";
      EXPECT_EQ(look.norms[1], 0) << "nothing was added";
    }
  });
}

TEST(GradientSums, KnowHowLongOffersAreBeforeAnythingWasSeen) {
  const GradientSums sums(parsed("top_k:ratio=0.01/0.1,min_compress_bytes=0"), kTensors);
  EXPECT_EQ(least_compressed(sums.look_at_nothing()), (Offers{1, 0}));
}

}  // namespace
}  // namespace paceline::schedule
