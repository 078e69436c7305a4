// Horovod's form of data parallel training.
#include "paceline/torch/parallel/distributed_optimizer.h"

#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

TEST(DistributedOptimizer, HasTheBitsOfDataParallel) {
  run_ranks(3, [&](Job& job) {
    const std::vector<std::int64_t> edges{0, 1, 3, 8};
    const auto begin = edges[static_cast<std::size_t>(job.rank())],
               end = edges[static_cast<std::size_t>(job.rank()) + 1];
    Net net, other;
    DataParallel parallel(net, job, kSmallBuckets);
    auto inner = sgd(net), wrapped = sgd(other);
    {
      const at::NoGradGuard no_grad;
      if (job.rank() > 0) other.first->bias.fill_(9);  // starts with rank 0's all the same
    }
    DistributedOptimizer optimizer(wrapped, job, kSmallBuckets);
    for (int step = 0; step < 5; ++step) {
      const Samples own = samples(step, 8).rows(begin, end);
      inner.zero_grad();
      parallel.weight(static_cast<double>(end - begin));
      loss_of(net, own, job.rank() == 1).backward();
      parallel.step(inner);
      optimizer.zero_grad();
      optimizer.weight(static_cast<double>(end - begin));
      loss_of(other, own, job.rank() == 1).backward();
      EXPECT_TRUE(optimizer.step());
    }
    EXPECT_EQ(sha256_of(net.parameters()), sha256_of(other.parameters()));
  });
}

TEST(DistributedOptimizer, AddsUpPassesAndLetsGradientsBeTouchedBetweenSynchronizeAndStep) {
  Net one;
  auto optimizer_of_one = sgd(one);
  for (int step = 0; step < 3; ++step) {
    optimizer_of_one.zero_grad();
    loss_of(one, samples(step, 8)).backward();
    nn::utils::clip_grad_norm_(one.parameters(), 0.05);
    optimizer_of_one.step();
  }
  run_ranks(2, [&](Job& job) {
    Net net;
    auto wrapped = sgd(net);
    DistributedOptimizer optimizer(wrapped, job, {.backward_passes_per_step = 2});
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      for (int k = 0; k < 2; ++k) {
        const std::int64_t begin = 4 * job.rank() + 2 * k;
        (loss_of(net, samples(step, 8).rows(begin, begin + 2)) / 2).backward();
      }
      EXPECT_TRUE(optimizer.synchronize());
      clip_grad_norm(net.parameters(), 0.05);
      const auto skip = optimizer.skip_synchronize();
      EXPECT_TRUE(optimizer.step());
    }
    expect_equal(net.parameters(), one.parameters(), 1e-12);
  });
}

TEST(DistributedOptimizer, EndsWithTheLastBatchAndRefusesToSendTwice) {
  run_ranks(2, [](Job& job) {
    Net net;
    auto wrapped = sgd(net);
    DistributedOptimizer optimizer(wrapped, job);
    loss_of(net, samples(0, 4)).backward();
    optimizer.synchronize();
    EXPECT_THAT(misuse_of([&] { optimizer.step(); }), HasSubstr("skip_synchronize()"));
    {
      const auto skip = optimizer.skip_synchronize();
      optimizer.step();
      EXPECT_THAT(misuse_of([&] { optimizer.step(); }), HasSubstr("without a synchronize()"));
    }
    const std::string before = sha256_of(net.parameters());
    optimizer.weight(0);
    EXPECT_FALSE(optimizer.step());
    EXPECT_EQ(sha256_of(net.parameters()), before);
  });
  run_ranks(2, [](Job& job) {
    nn::Linear model(3, job.rank() == 0 ? 2 : 4);
    torch::optim::SGD wrapped(model->parameters(), 0.1);
    try {
      DistributedOptimizer optimizer(wrapped, job);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr("group 0, parameter 0 f32[2, 3]"), HasSubstr("f32[4, 3]")));
    }
  });
}

}  // namespace
}  // namespace paceline
