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
    // What only fired while paused is sent too.
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

}  // namespace
}  // namespace paceline
