// Optimizers keep moments and counts, which become equal where replicas do.
#include "paceline/torch/replica/optimizer_mean.h"

#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

// The steps that the optimizer has counted, the same for all parameters.
std::int64_t counted_steps(torch::optim::Adam& adam) {
  std::set<std::int64_t> counts;
  for (auto& [parameter, state] : adam.state())
    counts.insert(static_cast<torch::optim::AdamParamState&>(*state).step());
  EXPECT_EQ(counts.size(), 1U);
  return *counts.begin();
}

void step_alone(Net& net, torch::optim::Optimizer& optimizer, int steps) {
  for (int step = 0; step < steps; ++step) {
    optimizer.zero_grad();
    loss_of(net, samples(step, 4), true).backward();
    optimizer.step();
  }
}

TEST(OptimizerMean, OfCountsIsTheirWeightedMeanRounded) {
  run_ranks(3, [](Job& job) {
    Net net;
    torch::optim::Adam adam(net.parameters(), 0.01);
    step_alone(net, adam, 1 + 3 * job.rank());
    replica::average_optimizers({&adam}, job.world());
    EXPECT_EQ(counted_steps(adam), 4);  // of 1, 4 and 7
    step_alone(net, adam, job.rank());
    replica::average_optimizers({&adam}, job.world(), job.rank() == 2 ? 3 : 0);
    EXPECT_EQ(counted_steps(adam), 6) << "ranks of weight 0 do not count";
  });
}

// A moment counts for nothing where its optimizer made no step: the counts do so too, and a moment
// that is there was made in at least one step.
TEST(OptimizerMean, OfCountsIsAtLeastOneWhereSomeRankStepped) {
  run_ranks(3, [](Job& job) {
    Net net;
    torch::optim::Adam adam(net.parameters(), 0.01);
    step_alone(net, adam, job.rank() == 1 ? 1 : 0);
    replica::average_optimizers({&adam}, job.world());
    EXPECT_EQ(counted_steps(adam), 1);
  });
}

// Rank 1 has a batch in every third step alone while replicas are apart.
TEST(OptimizerMean, LetsReplicasBeEqualAfterUnequalLocalSteps) {
  SameEverywhere same;
  run_ranks(2, [&](Job& job) {
    Net net;
    torch::optim::Adam adam(net.parameters(), 0.01);
    DataParallel parallel(net, job, {.synchrony = "local_sgd:period=4"});
    const auto train = [&](int from, int to, bool all) {
      for (int step = from; step < to; ++step) {
        const bool has_batch = all || job.rank() == 0 || step % 3 == 0;
        adam.zero_grad();
        parallel.weight(has_batch ? 4 : 0);
        if (has_batch) loss_of(net, samples(2 * step + job.rank(), 4), true).backward();
        parallel.step(adam);
      }
    };
    train(0, 8, false);
    parallel.synchrony("synchronous");
    train(8, 12, true);
    same.tell("parameters", net.parameters());
  });
}

}  // namespace
}  // namespace paceline
