// Block momentum (docs/strategies/block_momentum.md).
#include "tests/torch/strategy/ridge.h"
#include "tests/torch/strategy/serial_world.h"

namespace paceline {
namespace {

// The definition, in one thread. Returns the model to evaluate.
at::Tensor serial_block_momentum(const SharedTask& task, SerialWorld& world, int period,
                                 double momentum, double rate, bool nesterov) {
  at::Tensor global = world.x(0), update = at::zeros_like(global), start = global;
  for (int k = 0; k < task.steps; ++k) {
    world.local_step(k);
    if ((k + 1) % period != 0) continue;
    update = momentum * update + rate * (world.mean() - start);
    global = global + update;
    start = nesterov ? global + momentum * update : global;
    world.set_all(start);
    world.restart();
    for (const auto& optimizer : world.optimizers) optimizer->state().clear();
  }
  return global;
}

TEST(BlockMomentum, IsTheSerialProgramThatHoldsAllReplicas) {
  for (const SharedTask& task : oracle_tasks()) {
    for (const bool nesterov : {true, false}) {
      SerialWorld world(task);
      const at::Tensor consensus =
          serial_block_momentum(task, world, 4, 1 - 1.0 / task.ranks, 0.9, nesterov);
      expect_equals_serial(
          train_on_ranks(task,
                         c10::str("block_momentum:period=4,rate=0.9,nesterov=", nesterov ? 1 : 0)),
          world, consensus);
    }
  }
}

TEST(BlockMomentum, OfZeroIsLocalSgd) {
  const SharedTask task{.ranks = 3, .steps = 40};
  const Trained local = train_on_ranks(task, "local_sgd:period=5,momentum=reset");
  const Trained blocks = train_on_ranks(task, "block_momentum:period=5,momentum=0");
  EXPECT_LE(difference(blocks.replicas[2], local.replicas[2]), 1e-12);
  EXPECT_LE(difference(blocks.consensus[2], local.consensus[2]), 1e-12);
}

TEST(BlockMomentum, WithNesterovIsTorchsNesterovOnTheChangesOfBlocks) {
  const SharedTask task{.ranks = 2, .steps = 24};
  SerialWorld world(task);
  // A parameter whose gradient is what a block has changed, negated, stepped by torch's SGD.
  at::Tensor start = world.x(0);
  torch::optim::SGD blocks({start}, torch::optim::SGDOptions(1).momentum(0.6).nesterov(true));
  for (int k = 0; k < task.steps; ++k) {
    world.local_step(k);
    if ((k + 1) % 4 != 0) continue;
    start.mutable_grad() = start - world.mean();
    blocks.step();
    world.set_all(start);
    world.restart();
    for (const auto& optimizer : world.optimizers) optimizer->state().clear();
  }
  const Trained trained = train_on_ranks(task, "block_momentum:period=4,momentum=0.6,local=reset");
  EXPECT_LE(difference(trained.replicas[0], start), 1e-12);
}

// Ridge regression on contiguous shards: momentum moves no fixed point, so all three end where
// model averaging does, which is not the optimum.
TEST(BlockMomentum, EndsAtTheBiasedPointOfLocalSgdWithAndWithoutNesterov) {
  const Ridge ridge(8);
  std::vector<at::Tensor> ends;
  for (const char* synchrony :
       {"local_sgd:period=10", "block_momentum:period=10,momentum=0.5,nesterov=0",
        "block_momentum:period=10,momentum=0.5"})
    ends.push_back(ridge.train(synchrony, 10 * 150, 0.5));
  const double bias = ridge.error(ends[0]);
  EXPECT_GT(bias, 1e-3);
  EXPECT_LT(bias, 0.1);
  for (const at::Tensor& end : ends) EXPECT_NEAR(ridge.error(end), bias, 1e-6);
  EXPECT_NEAR(ridge.error(ridge.fixed_point_of_averaging(10, 0.5)), bias, 1e-6);
}

}  // namespace
}  // namespace paceline
