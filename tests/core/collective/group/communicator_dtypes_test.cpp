// Every operation with every element type, every reduction, every algorithm of the catalogue and
// every transport, against one plain reference that works on numbers (covers communicator.h; the
// shapes of buffers: communicator_results_test.cpp).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/core/base/half.h"
#include "paceline/core/base/seed.h"
#include "tests/core/collective/worlds.h"
#include "tests/support/nightly.h"
#include "tests/support/reference.h"
#include "tests/support/seed.h"

namespace paceline::collective::testing {
namespace {

void everything(const LocalWorldOptions& options, int ranks) {
  SCOPED_TRACE(fmt::format("{}, {} ranks", label(options), ranks));
  // Five rounds: every length for each combination.
  const int rounds = test::is_nightly() ? 5 : 1;
  run_ranks(ranks, options, [rounds](Job& job) {
    test::is_the_reference(job, job.world(), test::ways_of_the_catalogue(job.world_size()), rounds);
  });
}

TEST(CommunicatorDtypes, AreTheReferenceOverSharedMemory) {
  for (int ranks = 1; ranks <= (kSanitized ? 3 : 8); ++ranks) everything(kSharedFast, ranks);
}

// Arithmetic does not know what carries it: by day not every count.
TEST(CommunicatorDtypes, AreTheReferenceOverTcp) {
  for (int ranks = 1; ranks <= (kSanitized ? 3 : 8); ++ranks) {
    if (ranks <= 4 || ranks == 7 || test::is_nightly()) everything(kTcpFast, ranks);
  }
}

// --- promises for the 16-bit types ---

TEST(CommunicatorDtypes, ReproducibleSumsOf16BitsAreTheBalancedTreeInFloatsRoundedOnce) {
  constexpr std::size_t kCount = 5001;
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    for (const int ranks : {2, 3, 5, 8}) {
      std::vector<std::vector<float>> inputs(static_cast<std::size_t>(ranks),
                                             std::vector<float>(kCount));
      std::vector<std::vector<std::uint16_t>> halves;
      SeededNumbers numbers(test::seed(7));
      for (auto& input : inputs) {
        auto& bits = halves.emplace_back(kCount);
        for (float& f : input) f = static_cast<float>(numbers.unit() * 2000 - 1000);
        narrow(dtype, input, std::as_writable_bytes(std::span(bits)));
        widen(dtype, std::as_bytes(std::span(bits)), input);
      }
      for (const bool average : {false, true}) {
        std::vector<float> sums(kCount);
        for (std::size_t i = 0; i < kCount; ++i) {
          std::vector<float> leaves;
          for (const auto& input : inputs) leaves.push_back(input[i]);
          sums[i] = balanced_sum(leaves, [](float a, float b) { return a + b; });
          if (average) sums[i] *= static_cast<float>(1.0 / ranks);
        }
        std::vector<std::uint16_t> wanted(kCount);
        narrow(dtype, sums, std::as_writable_bytes(std::span(wanted)));
        for (const auto& options : {kShared, kTcp}) {
          run_ranks(ranks, options, [&](Job& job) {
            const auto op = average ? ReduceOp::average : ReduceOp::sum;
            auto bits = halves[static_cast<std::size_t>(job.rank())], rooted = bits;
            job.world()
                .all_reduce({std::as_writable_bytes(std::span(bits)).data(), kCount, dtype},
                            {.op = op})
                .wait();
            ASSERT_EQ(bits, wanted)
                << name_of(dtype) << ", " << ranks << " ranks, " << label(options);
            job.world()
                .reduce({std::as_writable_bytes(std::span(rooted)).data(), kCount, dtype},
                        ranks - 1, {.op = op})
                .wait();
            if (job.rank() == ranks - 1) {
              ASSERT_EQ(rooted, wanted);
            }
          });
        }
      }
    }
  }
}

TEST(CommunicatorDtypes, WeightedAveragesOf16BitsDoNotOverflow) {
  run_ranks(3, [](Job& job) {
    std::vector<float> value(1, 60000.0F);
    std::vector<std::uint16_t> bits(1);
    narrow(Dtype::f16, value, std::as_writable_bytes(std::span(bits)));
    const Buffer buffer{std::as_writable_bytes(std::span(bits)).data(), 1, Dtype::f16};
    job.world()
        .all_reduce(buffer, {.op = ReduceOp::average, .weight = 100.0 * (job.rank() + 1)})
        .wait();
    widen(Dtype::f16, std::as_bytes(std::span(bits)), value);
    EXPECT_NEAR(value[0], 60000, 64) << "within two roundings";
    job.world().all_reduce(buffer, {.op = ReduceOp::average}).wait();
    widen(Dtype::f16, std::as_bytes(std::span(bits)), value);
    EXPECT_NEAR(value[0], 60000, 96) << "the sum, 180000, is no f16";
  });
}

}  // namespace
}  // namespace paceline::collective::testing
