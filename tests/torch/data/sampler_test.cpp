#include "paceline/torch/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "paceline/core/base/result.h"

namespace paceline::data {
namespace {

using Indices = std::vector<std::int64_t>;

Indices list(const at::Tensor& tensor) {
  const auto* first = tensor.const_data_ptr<std::int64_t>();
  return {first, first + tensor.numel()};
}

TEST(Sampler, TheOrderIsLibtorchsForTheSameSeed) {  // computed by PyTorch
  EXPECT_EQ(list(shuffled(10, 0, 0)), (Indices{4, 1, 7, 5, 3, 9, 0, 8, 6, 2}));
  EXPECT_EQ(list(shuffled(13, 7, 0)), (Indices{6, 5, 3, 9, 8, 4, 12, 0, 11, 10, 1, 7, 2}));
  EXPECT_EQ(list(shuffled(13, 4, 3)), list(shuffled(13, 7, 0)));
}

TEST(Sampler, GlobalBatchesDoNotDependOnTheNumberOfRanks) {
  constexpr std::int64_t kSamples = 103, kBatch = 10;
  for (int ranks = 1; ranks <= 7; ++ranks) {
    for (std::int64_t step = 0; step < 25; ++step) {
      Indices together(static_cast<std::size_t>(kBatch), -1);
      std::int64_t size = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        GlobalBatches batches({.samples = kSamples,
                               .batch_size = kBatch,
                               .seed = 5,
                               .rank = rank,
                               .world_size = ranks});
        const auto part = batches.at(step);
        size = part.global_size;
        const Indices indices = list(part.indices);
        for (std::size_t i = 0; i < indices.size(); ++i)
          together[static_cast<std::size_t>(rank) + i * static_cast<std::size_t>(ranks)] =
              indices[i];
      }
      together.resize(static_cast<std::size_t>(size));
      const std::int64_t epoch = step / 11, begin = step % 11 * kBatch;
      EXPECT_EQ(size, std::min(kBatch, kSamples - begin));
      EXPECT_EQ(together, list(shuffled(kSamples, 5, epoch).slice(0, begin, begin + size)));
    }
  }
}

// All parts of a batch, rank after rank.
Indices together(BatchSplit split, int ranks, std::int64_t samples, std::int64_t batch_size,
                 std::uint64_t seed, std::int64_t step) {
  Indices all;
  for (int rank = 0; rank < ranks; ++rank) {
    GlobalBatches batches({samples, batch_size, seed, rank, ranks, split});
    const auto part = batches.at(step);
    const Indices own = list(part.indices);
    EXPECT_LE(std::abs(std::ssize(own) * ranks - part.global_size), 2 * ranks);
    all.insert(all.end(), own.begin(), own.end());
    if (rank + 1 == ranks) {
      EXPECT_EQ(std::ssize(all), part.global_size);
    }
  }
  return all;
}

TEST(Sampler, BatchesWithReplacementDoNotDependOnTheNumberOfRanks) {
  constexpr auto kSplit = BatchSplit::with_replacement;
  for (const std::int64_t step : {0, 3, 4, 5, 23}) {  // of 97 samples, 5 steps of 24 and fewer
    const Indices alone = together(kSplit, 1, 97, 24, 5, step);
    const std::int64_t epoch = step / 5, begin = step % 5 * 24;
    ASSERT_EQ(std::ssize(alone), std::min<std::int64_t>(24, 97 - begin));
    for (std::int64_t j = 0; j < std::ssize(alone); ++j)
      EXPECT_EQ(alone[static_cast<std::size_t>(j)],
                drawn_sample(static_cast<std::uint64_t>(begin + j), 97, 5, epoch));
    for (const int ranks : {2, 3, 4, 5, 7, 24})
      EXPECT_EQ(together(kSplit, ranks, 97, 24, 5, step), alone) << ranks;
  }
}

TEST(Sampler, ContiguousBatchesKeepEachSampleOnItsRankAndTakeAllOnceInAnEpoch) {
  for (const int ranks : {1, 2, 3, 7}) {
    for (const std::int64_t samples : {103, 100, 7}) {
      std::vector<Indices> orders;
      for (int rank = 0; rank < ranks; ++rank) {
        GlobalBatches batches({samples, 10, 5, rank, ranks, BatchSplit::contiguous});
        for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
          Indices own;
          for (std::int64_t k = 0; k < batches.per_epoch(); ++k) {
            const Indices part = list(batches.at(epoch * batches.per_epoch() + k).indices);
            own.insert(own.end(), part.begin(), part.end());
          }
          if (samples > 50 * ranks) orders.push_back(own);
          std::ranges::sort(own);
          Indices block(own.size());
          const std::int64_t q = samples / ranks, s = samples % ranks;
          std::iota(block.begin(), block.end(), rank * q + std::min<std::int64_t>(rank, s));
          EXPECT_EQ(own, block);
          EXPECT_EQ(std::ssize(own), q + (rank < s ? 1 : 0));
        }
      }
      for (std::size_t i = 0; i + 1 < orders.size(); i += 2) EXPECT_NE(orders[i], orders[i + 1]);
      for (std::int64_t step = 0; step < 20; ++step)
        together(BatchSplit::contiguous, ranks, samples, 10, 5, step);
    }
  }
}

TEST(Sampler, NamesOfSplitsAreKnown) {
  EXPECT_EQ(batch_split_names(),
            (std::vector<std::string>{"shuffled", "contiguous", "with_replacement"}));
  EXPECT_EQ(batch_split_named("contiguous"), BatchSplit::contiguous);
  EXPECT_EQ(batch_split_named("bootstrap"), std::nullopt);
}

TEST(Sampler, ContiguousSharesAreBlocksOfThePaddedOrder) {
  for (std::int64_t samples : {1, 2, 7, 10, 13}) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (const bool drop : {false, true}) {
        const Indices order = list(shuffled(samples, 3, 2));
        const std::int64_t length = drop ? samples / ranks : (samples + ranks - 1) / ranks;
        for (int rank = 0; rank < ranks; ++rank) {
          Indices expected;
          for (std::int64_t i = 0; i < length; ++i)
            expected.push_back(order[static_cast<std::size_t>((rank * length + i) % samples)]);
          const ShareOptions options{.rank = rank,
                                     .world_size = ranks,
                                     .seed = 3,
                                     .epoch = 2,
                                     .drop_last = drop,
                                     .contiguous = true};
          EXPECT_EQ(list(share_of(samples, options)), expected);
        }
      }
    }
  }
  EXPECT_THROW(share_of(9, {.consumed = 3, .contiguous = true}), Error);
}

TEST(Sampler, TheLastBatchMayLeaveRanksWithoutSamples) {
  GlobalBatches batches({.samples = 9, .batch_size = 4, .rank = 3, .world_size = 4});
  EXPECT_EQ(batches.per_epoch(), 3);
  EXPECT_EQ(batches.at(2).indices.numel(), 0);
  EXPECT_EQ(batches.at(2).global_size, 1);
}

TEST(Sampler, ABatchSmallerThanTheWorldIsRefusedWithBothNumbers) {
  try {
    GlobalBatches({.samples = 100, .batch_size = 3, .rank = 0, .world_size = 4});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse);
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("batch of 3"), testing::HasSubstr("4 ranks"),
                               testing::HasSubstr("Raise")));
  }
  EXPECT_THROW(GlobalBatches({.samples = 0, .batch_size = 3}), Error);
  EXPECT_THROW(GlobalBatches({.samples = 9, .batch_size = 3, .rank = 2, .world_size = 2}), Error);
}

TEST(Sampler, SharesAreDistributedSamplers) {
  for (std::int64_t samples : {1, 2, 7, 10, 13}) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
      for (const bool drop : {false, true}) {
        for (const bool shuffle : {false, true}) {
          const Indices order =
              shuffle ? list(shuffled(samples, 3, 2)) : list(at::arange(samples, at::kLong));
          const std::int64_t length = drop ? samples / ranks : (samples + ranks - 1) / ranks;
          for (int rank = 0; rank < ranks; ++rank) {
            Indices expected;  // Python's: pad the order from its own start, then take every P-th
            for (std::int64_t i = 0; i < length; ++i)
              expected.push_back(order[static_cast<std::size_t>((rank + i * ranks) % samples)]);
            EXPECT_EQ(list(share_of(samples, {rank, ranks, shuffle, 3, 2, drop})), expected);
          }
        }
      }
    }
  }
  EXPECT_THROW(share_of(0, {}), Error);
}

TEST(Sampler, ExactSharesHoldEverySampleOnce) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    Indices all;
    for (int rank = 0; rank < ranks; ++rank) {
      const Indices part = list(exact_share_of(5, rank, ranks));
      all.insert(all.end(), part.begin(), part.end());
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, (Indices{0, 1, 2, 3, 4}));
  }
}

TEST(ShareOf, TheRestOfAnEpochIsSharedByAnyNumberOfRanks) {
  constexpr std::int64_t kSamples = 103;
  const at::Tensor order = shuffled(kSamples, 5, 2);
  for (const bool drop_last : {false, true}) {
    for (int before = 1; before <= 5; ++before) {
      for (int now = 1; now <= 5; ++now) {
        for (const std::int64_t each : {0, 3, 7}) {
          const std::int64_t consumed = each * before;
          std::vector<std::int64_t> seen;
          for (int rank = 0; rank < now; ++rank) {
            const at::Tensor rest = share_of(kSamples, {.rank = rank,
                                                        .world_size = now,
                                                        .seed = 5,
                                                        .epoch = 2,
                                                        .drop_last = drop_last,
                                                        .consumed = consumed});
            if (before == now) {
              const at::Tensor whole = share_of(
                  kSamples,
                  {.rank = rank, .world_size = now, .seed = 5, .epoch = 2, .drop_last = drop_last});
              EXPECT_TRUE(at::equal(rest, whole.slice(0, each)));
            }
            seen.insert(seen.end(), rest.const_data_ptr<std::int64_t>(),
                        rest.const_data_ptr<std::int64_t>() + rest.numel());
          }
          // Each sample that is left comes once; padding comes from the beginning of the order.
          std::ranges::sort(seen);
          const at::Tensor left = order.slice(0, consumed);
          std::int64_t missing = 0;
          for (std::int64_t i = 0; i < left.numel(); ++i)
            missing += !std::ranges::binary_search(seen, left[i].item<std::int64_t>());
          EXPECT_EQ(missing, drop_last ? (kSamples - consumed) % now : 0);
          EXPECT_EQ(std::ssize(seen) % now, 0);
        }
      }
    }
  }
  EXPECT_EQ(share_of(kSamples, {.consumed = kSamples}).numel(), 0);
  EXPECT_EQ(share_of(kSamples, {.consumed = kSamples + 50}).numel(), 0);
  EXPECT_THROW(share_of(kSamples, {.consumed = -1}), Error);
}

std::vector<std::int64_t> draws(std::uint64_t first, std::size_t count, std::int64_t samples,
                                std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> all;
  for (std::uint64_t place = first; place < first + count; ++place)
    all.push_back(drawn_sample(place, samples, seed, epoch));
  return all;
}

using Drawn = std::vector<std::int64_t>;

TEST(Draws, AreThoseOfTheSpecificationsModel) {
  EXPECT_EQ(draws(0, 24, 97, 5, 2), (Drawn{73, 30, 13, 0,  68, 71, 65, 90, 11, 94, 45, 46,
                                           41, 50, 36, 44, 1,  63, 26, 82, 90, 69, 43, 22}));
  EXPECT_EQ(draws(0, 8, 60'000, 1, 0),
            (Drawn{53681, 52446, 33390, 2192, 39796, 17734, 7273, 28048}));
  EXPECT_EQ(draws(0, 4, 60'000, 1, 3), (Drawn{11079, 4490, 12924, 7587}));
  EXPECT_EQ(draws(std::uint64_t{1} << 32, 4, 1000, 3, 1), (Drawn{871, 777, 223, 219}));
  // The key is the seed's low 32 bits.
  EXPECT_EQ(draws(0, 4, 97, 5 + (std::uint64_t{7} << 32), 2), (Drawn{73, 30, 13, 0}));
}

TEST(Draws, AreMadeAgainWhereTheyWouldFavourSomeSamples) {
  const std::int64_t samples = (std::int64_t{1} << 62) + (std::int64_t{1} << 61);
  EXPECT_EQ(drawn_sample(8, samples, 1, 1), 1574305637774646673);
  EXPECT_EQ(drawn_sample(12, samples, 1, 1), 4631661918151655178);
  EXPECT_EQ(drawn_sample(15, samples, 1, 1), 672807206944296400);
}

TEST(Draws, AreUniformAndLeaveOutAThirdOfTheSamples) {
  std::vector<double> counts(1000);
  for (const std::int64_t one : draws(0, 20'000, 1000, 1, 0))
    ++counts[static_cast<std::size_t>(one)];
  double chi_squared = 0;
  for (const double count : counts) chi_squared += (count - 20) * (count - 20) / 20;
  EXPECT_LT(std::fabs(chi_squared - 999) / std::sqrt(2 * 999.0), 4);

  const auto all = draws(0, 4000, 4000, 3, 1);
  const double distinct = static_cast<double>(std::set(all.begin(), all.end()).size()) / 4000,
               expected = 1 - std::pow(1 - 1 / 4000.0, 4000);
  EXPECT_LT(std::fabs(distinct - expected), 4 * 0.3118 / std::sqrt(4000.0));
  EXPECT_EQ(draws(0, 3, 1, 0, 0), (Drawn{0, 0, 0}));
}

}  // namespace

}  // namespace paceline::data
