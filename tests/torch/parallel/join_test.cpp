// Ranks without a batch take part as shadows.
#include <algorithm>

#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

TEST(DataParallel, a_shadow_contributes_nothing_and_ends_with_the_same_gradients) {
  Net one;
  const Samples all = samples(0, 8);
  loss_of(one, all).backward();
  for (const bool shadow_computes : {false, true}) {
    SameEverywhere same;
    run_ranks(3, [&](Job& job) {
      Net net;
      DataParallel parallel(net, job, kSmallBuckets);
      const bool shadow = job.rank() == 0;
      for (int step = 0; step < 2; ++step) {
        net.zero_grad();
        parallel.weight(shadow ? 0 : 4);
        if (!shadow) loss_of(net, all.rows(4 * job.rank() - 4, 4 * job.rank())).backward();
        if (shadow && shadow_computes)
          loss_of(net, samples(9, 3), true).backward();  // even of a branch that nobody else uses
        EXPECT_TRUE(parallel.synchronize());
        expect_equal(grads_of(net), grads_of(one), 1e-12);
        same.tell("gradients", grads_of(net));
      }
    });
  }
}

TEST(DataParallel, ranks_of_different_lengths_end_together_and_nobody_steps_in_the_closing_round) {
  for (const std::vector<int>& lengths : {std::vector<int>{3, 5, 5, 7}, {0, 2, 1}, {0, 0}}) {
    SameEverywhere same;
    const int longest = *std::max_element(lengths.begin(), lengths.end());
    run_ranks(static_cast<int>(lengths.size()), [&](Job& job) {
      Net net;
      DataParallel parallel(net, job);
      auto optimizer = sgd(net);
      const int length = lengths[static_cast<std::size_t>(job.rank())];
      int rounds = 0;
      for (bool more = true; more; ++rounds) {
        optimizer.zero_grad();
        parallel.weight(rounds < length ? 2 : 0);
        if (rounds < length) loss_of(net, samples(10 * job.rank() + rounds, 2)).backward();
        const std::string before = sha256_of(net.parameters());
        more = parallel.step(optimizer);
        EXPECT_EQ(more, sha256_of(net.parameters()) != before);
      }
      EXPECT_EQ(rounds, longest + 1);
      same.tell("parameters", net.parameters());
    });
  }
}

}  // namespace
}  // namespace paceline
