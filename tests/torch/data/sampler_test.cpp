#include "paceline/torch/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>

#include "paceline/core/base/result.h"

namespace paceline::data {
namespace {

using Indices = std::vector<std::int64_t>;

Indices list(const at::Tensor& tensor) {
  const auto* first = tensor.const_data_ptr<std::int64_t>();
  return {first, first + tensor.numel()};
}

TEST(Sampler, the_order_is_libtorchs_for_the_same_seed) {  // computed by PyTorch
  EXPECT_EQ(list(shuffled(10, 0, 0)), (Indices{4, 1, 7, 5, 3, 9, 0, 8, 6, 2}));
  EXPECT_EQ(list(shuffled(13, 7, 0)), (Indices{6, 5, 3, 9, 8, 4, 12, 0, 11, 10, 1, 7, 2}));
  EXPECT_EQ(list(shuffled(13, 4, 3)), list(shuffled(13, 7, 0)));
}

TEST(Sampler, global_batches_do_not_depend_on_the_number_of_ranks) {
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

TEST(Sampler, the_last_batch_may_leave_ranks_without_samples) {
  GlobalBatches batches({.samples = 9, .batch_size = 4, .rank = 3, .world_size = 4});
  EXPECT_EQ(batches.per_epoch(), 3);
  EXPECT_EQ(batches.at(2).indices.numel(), 0);
  EXPECT_EQ(batches.at(2).global_size, 1);
}

TEST(Sampler, a_batch_smaller_than_the_world_is_refused_with_both_numbers) {
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

TEST(Sampler, shares_are_distributed_samplers) {
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

TEST(Sampler, exact_shares_hold_every_sample_once) {
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

}  // namespace
}  // namespace paceline::data
