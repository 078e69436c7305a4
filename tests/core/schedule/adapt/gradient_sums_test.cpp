#include "paceline/core/schedule/adapt/gradient_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "paceline/core/compress/menu/ratio_choice.h"
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

constexpr std::size_t kEach = 2048;
const std::vector<Tensor> kTwoMatrices = {{.bytes = 4 * kEach, .rows = 32},
                                          {.bytes = 4 * kEach, .rows = 64}};

OfferChoice choice_of(std::string_view text =
                          "top_k:ratio=0.01/0.001/0.1,min_compress_bytes=0,"
                          "choose_every=12") {
  return {compress::parse_compression(text, compress::built_in_methods()).value(), kTwoMatrices};
}

std::vector<float> steady_gradient(int rank, int step) {
  return test::fixed_gradients_of(1, kEach, static_cast<std::uint64_t>(7 * step + rank)).front();
}

Offers fewest(const Allowance& allowance, const Offers& present) {
  return fewest_bytes_offers(allowance, present);
}

// The offers after each step of [begin, end), of gradients `scale` times as large from step 40 on.
std::vector<Offers> offers_over(int begin, int end, Job& job, OfferChoice& choice, float scale) {
  std::vector<Offers> all;
  for (int step = begin; step < end; ++step) {
    for (const std::size_t tensor : {0u, 1u}) {
      if (!choice.sees_gradients()) continue;
      auto values = steady_gradient(job.rank(), step);
      // The second has all in few elements.
      for (std::size_t i = 0; i < kEach; ++i)
        values[i] *= (tensor == 1 && i > 1 ? 1e-3F : 1.0F) * (step >= 40 ? scale : 1.0F);
      choice.see(tensor, values);
    }
    const Offers before = choice.present();
    const bool has_changed = choice.end_step(job.world(), fewest);
    EXPECT_EQ(has_changed, choice.present() != before);
    all.push_back(choice.present());
  }
  return all;
}

TEST(OfferChoice, BeginsWithTheLeastCompressionLooksAndThenChoosesAndRisesWhereGradientsLeap) {
  std::vector<std::vector<Offers>> of_ranks(3);
  test::run_ranks(3, [&](Job& job) {
    OfferChoice choice = choice_of();
    of_ranks[static_cast<std::size_t>(job.rank())] = offers_over(0, 60, job, choice, 9);
    EXPECT_EQ(choice.looks(), 5);
  });
  EXPECT_EQ(of_ranks[1], of_ranks[0]);
  EXPECT_EQ(of_ranks[2], of_ranks[0]);
  const auto& offers = of_ranks[0];
  for (int step = 0; step < 23; ++step)
    EXPECT_EQ(offers[static_cast<std::size_t>(step)], (Offers{2, 2})) << step;
  EXPECT_NE(offers[23], (Offers{2, 2})) << "it is known that nothing changes";
  EXPECT_EQ(offers[23][1], 1) << "few elements have it all";
  EXPECT_EQ(offers[35], offers[23]);
  EXPECT_EQ(offers[47], (Offers{2, 2})) << "gradients became nine times as large";
  EXPECT_EQ(offers[59][1], 1);
}

TEST(OfferChoice, GoesOnFromWhatWasSaved) {
  test::run_ranks(2, [&](Job& job) {
    OfferChoice one = choice_of(), other = choice_of();
    offers_over(0, 26, job, one, 1);
    other.restore(one.state());
    EXPECT_EQ(other.state(), one.state());
    EXPECT_EQ(offers_over(26, 50, job, other, 1), offers_over(26, 50, job, one, 1));
  });
}

TEST(OfferChoice, RefusesWhatIsOfOtherTensorsOrAnotherMenu) {
  OfferChoice choice = choice_of();
  for (const OfferChoice::State& wrong :
       {OfferChoice::State{}, OfferChoice::State{{0, 0, 0}, {1, 1, 1}},
        OfferChoice::State{{0, 4}, {1, 1}}, OfferChoice::State{{0, -1}, {1, 1}},
        OfferChoice::State{{0, 1}, {1}}}) {
    EXPECT_THROW(choice.restore(wrong), Error);
  }
  choice.restore({{0, 3}, {1, 1}, 5});
  EXPECT_EQ(choice.present(), (Offers{0, 3}));
}

TEST(OfferChoice, StaysWhereALookOverflowed) {
  test::run_ranks(2, [&](Job& job) {
    OfferChoice choice = choice_of();
    for (int step = 0; step < 24; ++step) {
      auto values = steady_gradient(job.rank(), step);
      if (job.rank() == 1 && step == 23) values[3] = std::numeric_limits<float>::infinity();
      for (const std::size_t tensor : {0u, 1u})
        if (choice.sees_gradients()) choice.see(tensor, values);
      EXPECT_FALSE(choice.end_step(job.world(), fewest));
    }
    EXPECT_EQ(choice.looks(), 2);
  });
}

}  // namespace

}  // namespace paceline::schedule
