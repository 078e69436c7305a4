// The messages of DataParallel: buckets, their order, and the buffers.
#include <barrier>
#include <cmath>

#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

TEST(DataParallel, SendsOneMessageForEachBucketAndTheyOverlapWithBackward) {
  std::barrier all_here(2);
  run_ranks(2, [&](Job& job) {
    Net net;
    auto options = kSmallBuckets;
    options.check_replicas_every = 0;
    DataParallel parallel(net, job, options);
    loss_of(net, samples(0, 4), true).backward();
    parallel.synchronize();
    for (int step = 0; step < 3; ++step) {
      net.zero_grad();
      const auto before = job.world().traffic_of_all_groups().operations;
      const auto until_weights_are_known = [&, began = job.world().traffic().operations] {
        wait_for_weights(job, all_here, began);
      };
      loss_that_halts(net, samples(step, 4), until_weights_are_known).backward();
      parallel.synchronize();
      EXPECT_EQ(job.world().traffic_of_all_groups().operations - before,
                parallel.buckets().size() + 2)
          << "two tell weights and used parameters";
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

TEST(DataParallel, BucketsFollowRank0sOrderAfterTheFirstStep) {
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
    if (job.rank() == 0) {
      EXPECT_LE(parallel.last_step().launched_in_backward, 2)
          << "the third one waits until backward has ended for a gradient that does not come";
    }
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

TEST(DataParallel, BuffersAreBroadcastAveragedOrLeftAlone) {
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

// Used in the opposite order of registration.
struct Backwards : nn::Module {
  Backwards() {
    for (const char* name : {"last", "middle", "first"})
      layers.push_back(register_module(name, nn::Linear(6, 6)));
    const at::NoGradGuard no_grad;
    for (auto& p : parameters()) p.copy_(at::linspace(-1, 1, p.numel()).view(p.sizes()));
    to(at::kDouble);
  }
  at::Tensor loss(at::Tensor x) {
    for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer)
      x = at::tanh((*layer)->forward(x));
    return x.square().mean();
  }
  std::vector<nn::Linear> layers;
};

TEST(DataParallel, AStaticOrderIsThatOfTheFirstStepAndALateGradientCostsOverlapAlone) {
  SameEverywhere same;
  Backwards one;
  one.loss(samples(0, 8).x).backward();
  for (const bool static_order : {true, false}) {
    run_ranks(2, [&](Job& job) {
      Backwards net;
      auto options = DataParallelOptions{.first_bucket_bytes = 1, .bucket_bytes = 1};
      options.static_order = static_order;
      options.check_replicas_every = 0;
      DataParallel parallel(net, job, options);
      const auto registered = parallel.buckets();
      for (int step = 0; step < 3; ++step) {
        net.zero_grad();
        const auto before = job.world().traffic_of_all_groups().operations;
        net.loss(samples(0, 8).rows(4 * job.rank(), 4 * job.rank() + 4).x).backward();
        parallel.synchronize();
        const auto operations = job.world().traffic_of_all_groups().operations - before;
        // The observed order is broadcast once, and makes other buckets: a split takes two.
        const unsigned once = step == 0 && !static_order ? 1 + 2 : 0;
        EXPECT_EQ(operations, 6U + 2U + once) << "two tell weights and used parameters";
        EXPECT_EQ(parallel.last_step().late > 0, static_order || step == 0);
        expect_equal(grads_of(net), grads_of(one), 1e-12);
        same.tell("gradients", grads_of(net));
      }
      EXPECT_EQ(parallel.buckets() == registered, static_order);
    });
  }
}

// An adversarial training has two models, each with an optimizer of its own, on one job.
TEST(DataParallel, SeveralModulesShareAJob) {
  const auto turn = [](Net& a, Net& b, const Samples& batch) {
    return std::pair{loss_of(a, batch),
                     (b.forward(batch.x) - a.forward(batch.x).detach()).square().mean()};
  };
  Net one_a, one_b;
  auto optimizer_of_one_a = sgd(one_a), optimizer_of_one_b = sgd(one_b);
  for (int step = 0; step < 4; ++step) {
    one_a.zero_grad();
    one_b.zero_grad();
    auto [loss_a, loss_b] = turn(one_a, one_b, samples(step, 8));
    loss_a.backward();
    loss_b.backward();
    optimizer_of_one_a.step();
    optimizer_of_one_b.step();
  }
  run_ranks(2, [&](Job& job) {
    Net a, b;
    DataParallel parallel_a(a, job, kSmallBuckets), parallel_b(b, job);
    auto optimizer_a = sgd(a), optimizer_b = sgd(b);
    for (int step = 0; step < 4; ++step) {
      optimizer_a.zero_grad();
      optimizer_b.zero_grad();
      auto [loss_a, loss_b] = turn(a, b, samples(step, 8).rows(4 * job.rank(), 4 * job.rank() + 4));
      loss_a.backward();
      loss_b.backward();
      parallel_a.step(optimizer_a);
      parallel_b.step(optimizer_b);
    }
    expect_equal(a.parameters(), one_a.parameters(), 1e-12);
    expect_equal(b.parameters(), one_b.parameters(), 1e-12);
  });
}

// On one group their messages would stand in another order on a shadow, which runs no backward.
TEST(DataParallel, SeveralModulesInOneBackwardPassHaveGroupsOfTheirOwn) {
  Net one_a, one_b;
  (loss_of(one_a, samples(0, 4)) + loss_of(one_b, samples(0, 4))).backward();
  run_ranks(2, [&](Job& job) {
    const auto group = job.world().split(0);
    Net a, b;
    DataParallel parallel_a(a, job, kSmallBuckets), parallel_b(b, *group, kSmallBuckets);
    for (int step = 0; step < 3; ++step) {
      for (auto [net, parallel] : {std::pair{&a, &parallel_a}, std::pair{&b, &parallel_b}}) {
        net->zero_grad();
        parallel->weight(job.rank());
      }
      if (job.rank() == 1) (loss_of(a, samples(0, 4)) + loss_of(b, samples(0, 4))).backward();
      parallel_a.synchronize();
      parallel_b.synchronize();
      expect_equal(grads_of(a), grads_of(one_a), 1e-12);
      expect_equal(grads_of(b), grads_of(one_b), 1e-12);
    }
  });
}

}  // namespace
}  // namespace paceline
