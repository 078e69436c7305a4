// AdaComm (docs/strategies/adacomm.md).
#include "tests/torch/strategy/serial_world.h"

namespace paceline {
namespace {

// Local SGD whose period is 6 for ten steps, and then what the rule says: after the first step the
// reference is known; each ten steps later the period is chosen again.
TEST(AdaComm, IsLocalSgdWithThePeriodOfTheRule) {
  for (const SharedTask& task : oracle_tasks(40)) {
    SerialWorld world(task);
    int period = 6, since = 0, in_interval = 0;
    double first = -1, losses = 0, weights = 0;
    for (int k = 0; k < task.steps; ++k) {
      for (int r = 0; r < world.ranks(); ++r) {
        if (!world.has_batch(r, k)) continue;
        losses += task.weight(r, k) *
                  world.nets[SerialWorld::at(r)]->loss(*task.batch(r, k)).item<double>();
        weights += task.weight(r, k);
      }
      world.local_step(k);
      if (++since >= period) {
        world.set_all(world.mean());
        world.restart();
        since = 0;
      }
      const bool is_first = first < 0;
      if (!is_first && ++in_interval < 10) continue;
      const double loss = losses / weights;
      if (is_first) {
        first = loss;
      } else {
        const int wanted = std::max(1, static_cast<int>(std::ceil(std::sqrt(loss / first) * 6)));
        period = wanted < period ? wanted : std::max(1, period / 2);
      }
      losses = weights = in_interval = 0;
    }
    const Trained trained = train_on_ranks(task, "adacomm:start=6,interval=10");
    expect_equals_serial(trained, world, world.mean());
    EXPECT_EQ(trained.reports[0].exchange.period, period);
  }
}

TEST(AdaComm, WithoutLossesIsMisuseThatNamesTheCall) {
  run_ranks(2, [](Job& job) {
    TaskNet net("linear");
    DataParallel parallel(net, job, {.synchrony = "adacomm"});
    torch::optim::SGD optimizer(net.parameters(), 0.1);
    net.loss(samples(1, 4)).backward();
    EXPECT_THAT(misuse_of([&] { parallel.step(optimizer); }), HasSubstr("parallel.loss("));
  });
}

}  // namespace
}  // namespace paceline
