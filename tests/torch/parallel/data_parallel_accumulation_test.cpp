// Several backward passes for one step.
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

TEST(DataParallel, no_sync_accumulates_to_the_gradient_of_the_large_batch) {
  Net one;
  const Samples all = samples(0, 12);
  loss_of(one, all).backward();
  SameEverywhere same;
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, kSmallBuckets);
    const Samples own = all.rows(6 * job.rank(), 6 * job.rank() + 6);
    for (int step = 0; step < 2; ++step) {
      net.zero_grad();
      {
        const auto paused = parallel.no_sync();
        for (int k = 0; k < 2; ++k) (loss_of(net, own.rows(2 * k, 2 * k + 2)) / 3).backward();
      }
      (loss_of(net, own.rows(4, 6)) / 3).backward();
      parallel.synchronize();
      expect_equal(grads_of(net), grads_of(one), 1e-12);
      same.tell("gradients", grads_of(net));
    }
    // A gradient that came only while paused is sent too.
    net.zero_grad();
    {
      const auto paused = parallel.no_sync();
      net.side->weight.sum().backward();
    }
    loss_of(net, own).backward();
    parallel.synchronize();
    EXPECT_TRUE(net.side->weight.grad().eq(1).all().item<bool>());
  });
}

// Micro-batches of all sizes: each loss counts for its share of the rank's samples, the rank for
// its samples.
TEST(DataParallel, unequal_micro_batches_on_unequal_ranks_equal_the_large_batch) {
  Net one;
  const Samples all = samples(0, 12);
  loss_of(one, all).backward();
  SameEverywhere same;
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, kSmallBuckets);
    const std::vector<std::int64_t> edges = job.rank() == 0
                                                ? std::vector<std::int64_t>{0, 1, 5}
                                                : std::vector<std::int64_t>{5, 6, 9, 10, 12};
    const auto own = static_cast<double>(edges.back() - edges.front());
    for (int step = 0; step < 3; ++step) {
      net.zero_grad();
      parallel.weight(own);
      const auto pass = [&](std::size_t k) {
        const auto rows = static_cast<double>(edges[k + 1] - edges[k]);
        (loss_of(net, all.rows(edges[k], edges[k + 1])) * (rows / own)).backward();
      };
      {
        const auto paused = parallel.no_sync();
        for (std::size_t k = 0; k + 2 < edges.size(); ++k) pass(k);
      }
      pass(edges.size() - 2);
      parallel.synchronize();
      expect_equal(grads_of(net), grads_of(one), 1e-12);
      same.tell("gradients", grads_of(net));
    }
  });
}

TEST(DataParallel, backward_passes_per_step_is_no_sync_counted_by_itself) {
  Net one;
  const Samples all = samples(0, 12);
  loss_of(one, all).backward();
  run_ranks(2, [&](Job& job) {
    Net net;
    auto options = kSmallBuckets;
    options.backward_passes_per_step = 3;
    options.check_replicas_every = 0;
    DataParallel parallel(net, job, options);
    const Samples own = all.rows(6 * job.rank(), 6 * job.rank() + 6);
    for (int step = 0; step < 3; ++step) {
      net.zero_grad();
      const auto before = job.world().traffic_of_all_groups().operations;
      for (int k = 0; k < 3; ++k) (loss_of(net, own.rows(2 * k, 2 * k + 2)) / 3).backward();
      parallel.synchronize();
      expect_equal(grads_of(net), grads_of(one), 1e-12);
      EXPECT_EQ(parallel.last_step().gradients, 6) << "of the last pass alone";
      if (step > 0) {
        EXPECT_EQ(job.world().traffic_of_all_groups().operations - before,
                  parallel.buckets().size() + 2)
            << "two tell weights and used parameters";
      }
    }
    // A window that ends early sends what there is.
    net.zero_grad();
    loss_of(net, own).backward();
    parallel.synchronize();
    expect_equal(grads_of(net), grads_of(one), 1e-12);
    EXPECT_EQ(parallel.last_step().used, 6);
    // One pass too many belongs to the next step, before this one was ended.
    net.zero_grad();
    for (int k = 0; k < 3; ++k) loss_of(net, own).backward();
    EXPECT_THAT(misuse_of([&] { loss_of(net, own).backward(); }), HasSubstr("second backward()"));
    parallel.synchronize();
  });
  run_ranks(1, [](Job& job) {
    Net net;
    EXPECT_THAT(misuse_of([&] { DataParallel(net, job, {.backward_passes_per_step = 0}); }),
                HasSubstr("at least one"));
  });
}

}  // namespace
}  // namespace paceline
