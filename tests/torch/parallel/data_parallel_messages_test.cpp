// What DataParallel sends: buckets, their order, and the buffers.
#include <cmath>

#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

TEST(DataParallel, sends_one_message_for_each_bucket_and_they_overlap_with_backward) {
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, kSmallBuckets);
    loss_of(net, samples(0, 4), true).backward();
    parallel.synchronize();
    for (int step = 0; step < 3; ++step) {
      net.zero_grad();
      const auto before = job.world().traffic().operations;
      loss_of(net, samples(step, 4), true).backward();
      parallel.synchronize();
      EXPECT_EQ(job.world().traffic().operations - before, parallel.buckets().size());
      const StepReport& report = parallel.last_step();
      EXPECT_EQ(report.buckets, static_cast<int>(parallel.buckets().size()));
      EXPECT_GT(report.buckets, 2);
      EXPECT_EQ(report.launched_in_backward, report.buckets);
      EXPECT_EQ(report.gradients, 8);
      EXPECT_LT(report.gradients_at_first_launch, report.gradients)
          << "the first all_reduce started after the last gradient";
    }
  });
}

TEST(DataParallel, buckets_follow_rank_0s_order_after_the_first_step) {
  std::mutex mutex;
  std::vector<std::vector<schedule::Bucket>> plans;
  run_ranks(3, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job,
                          {.first_bucket_bytes = 1, .bucket_bytes = 1});  // each gradient alone
    std::vector<int> order;
    for (const auto& bucket : parallel.buckets()) order.push_back(bucket.gradients[0]);
    EXPECT_EQ(order, (std::vector<int>{7, 6, 5, 4, 3, 2, 1, 0}));
    loss_of(net, samples(0, 4), job.rank() != 0).backward();
    parallel.synchronize();
    const std::lock_guard lock(mutex);
    plans.push_back(parallel.buckets());
  });
  EXPECT_EQ(plans[0], plans[1]);
  EXPECT_EQ(plans[0], plans[2]);
  ASSERT_EQ(plans[0].size(), 8u);
  EXPECT_EQ(plans[0][6].gradients, (std::vector<int>{5}))
      << "what did not fire on rank 0 comes last";
  EXPECT_EQ(plans[0][7].gradients, (std::vector<int>{4}));
}

TEST(DataParallel, buffers_are_broadcast_averaged_or_left_alone) {
  struct Counting : nn::Module {
    Counting() {
      p = register_parameter("p", at::ones({2}, at::kDouble));
      mean = register_buffer("mean", at::zeros({3}, at::kDouble));
      small = register_buffer("small", at::zeros({2}, at::kFloat));
      count = register_buffer("count", at::zeros({}, at::kLong));
    }
    at::Tensor p, mean, small, count;
  };
  for (const BufferMode mode : {BufferMode::off, BufferMode::broadcast, BufferMode::average}) {
    run_ranks(3, [&](Job& job) {
      Counting net;
      DataParallel parallel(net, job, {.buffers = mode});
      const int rank = job.rank();
      parallel.weight(rank);  // rank 0 is a shadow
      net.mean.fill_(rank == 0 ? NAN : rank);
      net.small.fill_(rank);
      net.count.fill_(rank);
      if (rank > 0) net.p.sum().backward();
      EXPECT_TRUE(parallel.synchronize());
      const double expected = mode == BufferMode::off         ? rank
                              : mode == BufferMode::broadcast ? 1
                                                              : (1.0 * 1 + 2.0 * 2) / 3;
      if (mode != BufferMode::off || rank > 0) {
        EXPECT_NEAR(net.mean[1].item<double>(), expected, 1e-15);
      }
      EXPECT_NEAR(net.small[1].item<double>(), expected, 1e-6);
      EXPECT_EQ(net.count.item<int>(), mode == BufferMode::off ? rank : 1);
    });
  }
}

}  // namespace
}  // namespace paceline
