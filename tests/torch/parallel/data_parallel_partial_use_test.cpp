// Parameters that only some ranks, or none, use in a step, and such as are used in several places.
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

TEST(DataParallel, AParameterThatOnlyOneRankUsedCountsAsZeroElsewhere) {
  Net one;
  const Samples all = samples(0, 8);
  // The mean over 8 samples, of which only the first 4 use the side branch.
  (loss_of(one, all.rows(0, 4), true) * 0.5 + loss_of(one, all.rows(4, 8), false) * 0.5).backward();
  SameEverywhere same;
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, kSmallBuckets);
    for (int step = 0; step < 3; ++step) {  // also after the rebuild
      net.zero_grad();
      loss_of(net, all.rows(4 * job.rank(), 4 * job.rank() + 4), job.rank() == 0).backward();
      parallel.synchronize();
      EXPECT_EQ(parallel.last_step().used, 8);
      EXPECT_EQ(parallel.last_step().gradients, job.rank() == 0 ? 8 : 6);
      expect_equal(grads_of(net), grads_of(one), 1e-12);
      same.tell("gradients", grads_of(net));
    }
  });
}

TEST(DataParallel, AccumulatedGradientsSurviveAStepThatNotAllRanksUse) {
  Net one;
  const Samples all = samples(0, 8);
  const auto pass = [&](bool first_half_uses) {
    (loss_of(one, all.rows(0, 4), first_half_uses) * 0.5 + loss_of(one, all.rows(4, 8), true) * 0.5)
        .backward();
  };
  pass(true);
  pass(false);
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, kSmallBuckets);
    const Samples own = all.rows(4 * job.rank(), 4 * job.rank() + 4);
    loss_of(net, own, true).backward();
    parallel.synchronize();
    loss_of(net, own, job.rank() == 1).backward();  // no zero_grad
    parallel.synchronize();
    expect_equal(grads_of(net), grads_of(one), 1e-12);
  });
}

TEST(DataParallel, AParameterThatNoRankUsedKeepsItsGradUntouched) {
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, kSmallBuckets);
    const auto step = [&](bool use_side) {
      loss_of(net, samples(job.rank(), 4), use_side).backward();
      parallel.synchronize();
    };
    for (int i = 0; i < 3; ++i) {
      step(false);
      EXPECT_FALSE(net.side->weight.grad().defined());
      EXPECT_EQ(parallel.last_step().used, 6);
      net.zero_grad();
    }
    step(true);
    const at::Tensor before = net.side->weight.grad().clone();
    step(false);  // accumulates elsewhere; here nothing arrives
    EXPECT_TRUE(at::equal(net.side->weight.grad(), before));
    const at::Tensor own = at::full_like(net.side->weight, 3.5);
    net.zero_grad();
    net.side->weight.mutable_grad() = own;
    step(false);
    EXPECT_TRUE(net.side->weight.grad().is_same(own));
    EXPECT_TRUE(own.eq(3.5).all().item<bool>());
  });
}

TEST(DataParallel, GradientsThatTheUserSetTakePartInTheSum) {
  run_ranks(2, [&](Job& job) {
    Net net, one;
    DataParallel parallel(net, job, kSmallBuckets);
    for (auto& p : one.parameters()) p.mutable_grad() = at::full_like(p, 0.25);
    loss_of(one, samples(0, 8), true).backward();
    for (int step = 0; step < 2; ++step) {
      for (auto& p : net.parameters()) p.mutable_grad() = at::full_like(p, 0.25);
      loss_of(net, samples(0, 8).rows(4 * job.rank(), 4 * job.rank() + 4), true).backward();
      parallel.synchronize();
      expect_equal(grads_of(net), grads_of(one), 1e-12);
    }
  });
}

TEST(DataParallel, FrozenParametersAreLeftOutAtTheStartAndRestLater) {
  run_ranks(2, [&](Job& job) {
    Net net;
    net.first->weight.set_requires_grad(false);
    DataParallel parallel(net, job, kSmallBuckets);
    std::size_t planned = 0;
    for (const auto& bucket : parallel.buckets()) planned += bucket.gradients.size();
    EXPECT_EQ(planned, 7u);
    for (int step = 0; step < 4; ++step) {
      if (step == 2) net.second->weight.set_requires_grad(false);  // in mid-run, on all ranks
      net.zero_grad();
      loss_of(net, samples(job.rank(), 4)).backward();
      parallel.synchronize();
      EXPECT_FALSE(net.first->weight.grad().defined());
      EXPECT_EQ(net.second->weight.grad().defined(), step < 2);
      EXPECT_TRUE(net.first->bias.grad().defined());
    }
  });
}

// One weight in two layers and under two names, as an embedding that is also the output layer.
struct Tied : nn::Module {
  Tied() {
    weight = register_parameter("first", at::linspace(-1, 1, 36, at::kDouble).view({6, 6}).clone());
    bias = register_parameter("bias", at::zeros({6}, at::kDouble));
    register_parameter("second", weight);
  }
  at::Tensor forward(const at::Tensor& x) {
    return at::linear(at::tanh(at::linear(x, weight)), weight, bias);
  }
  at::Tensor weight, bias;
};

TEST(DataParallel, AWeightSharedByTwoLayersHasOneGradientTheSumOfItsUses) {
  Tied one;
  torch::optim::SGD optimizer_of_one({one.weight, one.bias},
                                     torch::optim::SGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 4; ++step) {
    optimizer_of_one.zero_grad();
    one.forward(samples(step, 8).x).square().mean().backward();
    optimizer_of_one.step();
  }
  SameEverywhere same;
  run_ranks(2, [&](Job& job) {
    Tied net;
    DataParallel parallel(net, job);
    torch::optim::SGD optimizer({net.weight, net.bias},
                                torch::optim::SGDOptions(0.1).momentum(0.9));
    const std::int64_t begin = job.rank() == 0 ? 0 : 3, end = job.rank() == 0 ? 3 : 8;
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      parallel.weight(static_cast<double>(end - begin));
      net.forward(samples(step, 8).x.slice(0, begin, end)).square().mean().backward();
      parallel.step(optimizer);
      EXPECT_EQ(parallel.last_step().gradients, 2);
    }
    expect_equal({net.weight, net.bias}, {one.weight, one.bias}, 1e-12);
    same.tell("parameters", net.parameters());
  });
}

}  // namespace
}  // namespace paceline
