// The same bits: what `reproducible` promises, and averages that are scaled once.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <mutex>
#include <random>
#include <thread>

#include "paceline/core/collective/program/algorithm_catalogue.h"
#include "tests/core/collective/worlds.h"
#include "tests/support/seed.h"

namespace paceline::collective::testing {
namespace {

// Numbers of all sizes, so that every order of summation gives other bits.
std::vector<float> wild(int rank, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(test::seed(static_cast<unsigned>(rank) + 4711)));
  std::uniform_real_distribution<float> mantissa(-1, 1);
  std::uniform_int_distribution<int> exponent(-12, 12);
  std::vector<float> values(count);
  for (float& v : values) v = std::ldexp(mantissa(random), exponent(random));
  return values;
}

std::vector<float> balanced_sums(int ranks, std::size_t count) {
  std::vector<std::vector<float>> inputs;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(wild(rank, count));
  std::vector<float> sums(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<float> leaves;
    for (const auto& input : inputs) leaves.push_back(input[i]);
    sums[i] = balanced_sum(leaves, [](float left, float right) { return left + right; });
  }
  return sums;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

TEST(CommunicatorBits, ReproducibleIsTheBalancedTreeWhateverCarriesIt) {
  constexpr std::size_t kCount = 70'001;
  for (const int ranks :
       kSanitized ? std::vector{1, 3, 5} : std::vector{1, 2, 3, 4, 5, 6, 7, 8, 11}) {
    const auto wanted = balanced_sums(ranks, kCount);
    for (const auto& options : {kShared, kTcp}) {
      run_ranks(ranks, options, [&](Job& job) {
        Allocation shared = job.allocate(kCount * sizeof(float));
        const auto input = wild(job.rank(), kCount);
        for (const std::string_view algorithm : {"direct", "binomial", ""}) {
          std::vector<float> ordinary = input;
          const bool allocated = job.rank() % 2 == 0;
          std::span<float> values = ordinary;
          if (allocated) values = {reinterpret_cast<float*>(shared.data()), kCount};
          std::ranges::copy(input, values.begin());
          job.world().all_reduce(buffer_of(values), {.algorithm = algorithm}).wait();
          ASSERT_TRUE(same_bits(values, wanted))
              << label(options) << ", " << ranks << " ranks, " << algorithm;
        }
        // In two calls, cut anywhere.
        std::vector<float> values = input;
        const auto head = std::span(values).first(12'345), tail = std::span(values).subspan(12'345);
        Work first = job.world().all_reduce(buffer_of(head));
        job.world().all_reduce(buffer_of(tail)).wait();
        first.wait();
        ASSERT_TRUE(same_bits(values, wanted));
        // The same by reduce_scatter and all_gather.
        const ElementRange own =
            Partition::even(kCount, ranks).chunks[static_cast<std::size_t>(job.rank())];
        values = input;
        const auto part = std::span(values).subspan(own.offset, own.count);
        job.world().reduce_scatter(const_buffer_of(values), buffer_of(part)).wait();
        job.world().all_gather(const_buffer_of(part), buffer_of(values)).wait();
        ASSERT_TRUE(same_bits(values, wanted));
      });
    }
  }
}

TEST(CommunicatorBits, FastGivesTheSameBitsOnAllRanksAndFromRunToRun) {
  constexpr std::size_t kCount = 70'001;
  for (const int ranks : {2, 3, 5}) {
    std::vector<float> first;
    std::mutex mutex;
    for (int run = 0; run < 4; ++run) {
      run_ranks(ranks, run % 2 == 0 ? kSharedFast : kTcpFast, [&](Job& job) {
        auto values = wild(job.rank(), kCount);
        job.world().all_reduce(buffer_of(values), {.algorithm = "ring"}).wait();
        const std::lock_guard lock(mutex);
        if (first.empty()) first = values;
        ASSERT_TRUE(same_bits(values, first));
      });
    }
  }
}

// Ranks that come late, each time others: messages overtake each other on their way to a rank.
TEST(CommunicatorBits, DelaysLeaveThemUnchanged) {
  constexpr std::size_t kCount = 3'001;
  constexpr int kRanks = 5, kSeeds = 6;
  for (const auto& options : {kSharedFast, kTcpFast}) {
    for (const Algorithm& algorithm : built_in_algorithms()) {
      if (algorithm.operation != Operation::all_reduce || !algorithm.fits({.ranks = kRanks}))
        continue;
      std::vector<float> first;
      std::mutex mutex;
      run_ranks(kRanks, options, [&](Job& job) {
        for (unsigned seed = 0; seed < kSeeds; ++seed) {
          std::mt19937 random(
              static_cast<unsigned>(test::seed(seed * kRanks + static_cast<unsigned>(job.rank()))));
          std::this_thread::sleep_for(std::chrono::microseconds(seed == 0 ? 0 : random() % 2000));
          auto values = wild(job.rank(), kCount);
          job.world().all_reduce(buffer_of(values), {.algorithm = algorithm.name}).wait();
          const std::lock_guard lock(mutex);
          if (first.empty()) first = values;
          ASSERT_TRUE(same_bits(values, first))
              << label(options) << ", " << algorithm.name << ", seed " << seed;
        }
      });
    }
  }
}

TEST(CommunicatorBits, AnAverageIsTheSumTimesOneFactor) {
  for (const int ranks : {1, 2, 3, 5, 7}) {
    const auto sums = balanced_sums(ranks, 5000);
    for (const auto& options : {kShared, kTcp}) {
      for (const std::string_view algorithm : {"direct", "binomial"}) {
        run_ranks(ranks, options, [&](Job& job) {
          auto values = wild(job.rank(), 5000);
          job.world()
              .all_reduce(buffer_of(values), {.op = ReduceOp::average, .algorithm = algorithm})
              .wait();
          const auto wanted = [&](std::size_t i) {
            return sums[i] * static_cast<float>(1.0 / ranks);
          };
          ASSERT_EQ(first_difference<float>(values, wanted), values.size())
              << algorithm << ", " << ranks;
          std::vector<double> doubles(100, 0.1);
          job.world()
              .all_reduce(buffer_of(doubles), {.op = ReduceOp::average, .algorithm = algorithm})
              .wait();
          const double sum = balanced_sum(std::vector<double>(static_cast<std::size_t>(ranks), 0.1),
                                          std::plus<>());
          ASSERT_EQ(doubles, std::vector<double>(100, sum * (1.0 / ranks)));
        });
      }
    }
  }
}

TEST(CommunicatorBits, EqualWeightsAreThePlainAverage) {
  for (const double weight : {1.0, 0.1, 128.0}) {
    run_ranks(3, [weight](Job& job) {
      auto plain = wild(job.rank(), 1000), weighted = plain;
      job.world().all_reduce(buffer_of(plain), {.op = ReduceOp::average}).wait();
      const Work work =
          job.world().all_reduce(buffer_of(weighted), {.op = ReduceOp::average, .weight = weight});
      work.wait();
      EXPECT_EQ(work.total_weight(), weight + weight + weight);
      EXPECT_TRUE(same_bits(plain, weighted));
    });
  }
}

TEST(CommunicatorBits, WhenAllWeighNothingTheResultIsZero) {
  run_ranks(3, [](Job& job) {
    std::vector<float> values(10, 3.0F);
    const Work work =
        job.world().all_reduce(buffer_of(values), {.op = ReduceOp::average, .weight = 0});
    work.wait();
    EXPECT_EQ(work.total_weight(), 0);
    EXPECT_EQ(values, std::vector<float>(10, 0.0F));
  });
}

TEST(CommunicatorBits, NaNWinsAndZerosHaveSigns) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& options : {kShared, kTcp}) {
    for (const std::string_view algorithm : {"direct", "binomial"}) {
      run_ranks(3, options, [&](Job& job) {
        const bool last = job.rank() == 2;
        const std::vector<float> input = {last ? nan : 1.0F, last ? -0.0F : 0.0F};
        for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
          std::vector<float> values = input;
          job.world().all_reduce(buffer_of(values), {.op = op, .algorithm = algorithm}).wait();
          EXPECT_TRUE(std::isnan(values[0]));
          EXPECT_EQ(values[1], 0.0F);
          EXPECT_EQ(std::signbit(values[1]), op == ReduceOp::min);
        }
      });
    }
  }
}

}  // namespace
}  // namespace paceline::collective::testing
