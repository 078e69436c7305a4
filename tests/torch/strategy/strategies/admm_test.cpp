// Consensus ADMM (docs/strategies/admm.md).
#include "tests/torch/strategy/ridge.h"
#include "tests/torch/strategy/serial_world.h"

namespace paceline {
namespace {

// The definition, in one thread. Returns the consensus z.
at::Tensor serial_admm(const SharedTask& task, SerialWorld& world, int period, double penalty) {
  at::Tensor z = world.x(0);
  std::vector<at::Tensor> u(SerialWorld::at(task.ranks), at::zeros_like(z));
  for (int k = 0; k < task.steps; ++k) {
    world.local_step(k, [&](int r) {
      nn::Module& net = *world.nets[SerialWorld::at(r)];
      set_flat_gradient(net,
                        flat_gradient(net) + penalty * (world.x(r) - z + u[SerialWorld::at(r)]));
    });
    if ((k + 1) % period != 0) continue;
    double total = 0;
    for (const double one : world.samples) total += one;
    z = at::zeros_like(z);
    for (int r = 0; r < task.ranks; ++r)
      z += (world.x(r) + u[SerialWorld::at(r)]) *
           (total > 0 ? world.samples[SerialWorld::at(r)] / total : 1.0 / task.ranks);
    for (int r = 0; r < task.ranks; ++r) {
      at::Tensor& own = u[SerialWorld::at(r)];
      own = own + world.x(r) - z;
    }
    world.restart();
  }
  return z;
}

TEST(Admm, IsTheSerialProgramThatHoldsAllReplicas) {
  for (const SharedTask& task : oracle_tasks()) {
    SerialWorld world(task);
    const at::Tensor consensus = serial_admm(task, world, 5, 0.2);
    expect_equals_serial(train_on_ranks(task, "admm:period=5,penalty=0.2"), world, consensus);
  }
}

// Averaging ends at a biased point; the dual variables find the optimum.
TEST(Admm, FindsTheOptimumOfUnequalShards) {
  const Ridge ridge(8);
  EXPECT_LT(ridge.error(ridge.train("admm:period=10,penalty=0.1", 10 * 200, 0.5)), 1e-9);
}

}  // namespace
}  // namespace paceline
