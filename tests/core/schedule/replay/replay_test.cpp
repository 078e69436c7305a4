#include "paceline/core/schedule/replay/replay.h"

#include <gtest/gtest.h>

#include "paceline/core/job/job.h"
#include "paceline/core/schedule/policies/policies.h"
#include "paceline/core/schedule/simulation/simulate.h"
#include "tests/support/local_world.h"

namespace paceline::schedule {
namespace {

Model model_of_milliseconds() {
  Model model{.name = "small", .tensors = {}};
  for (int i = 0; i < 5; ++i)
    model.tensors.push_back({.bytes = 4000, .forward = .001, .backward = .002, .update = .0005});
  return model;
}

std::vector<Buffer> buffers_of(std::vector<std::vector<float>>& gradients, int rank) {
  std::vector<Buffer> buffers;
  for (auto& group : gradients) {
    group.assign(1000, static_cast<float>(rank));
    buffers.push_back(buffer_of(group));
  }
  return buffers;
}

// The computation is the model's to the microsecond, so a step is never shorter.
TEST(Replay, AStepTakesItsComputationAndWhatIsExposed) {
  const Model model = model_of_milliseconds();
  for (const bool crosses_barrier : {false, true}) {
    test::run_ranks(2, [&](Job& job) {
      const MessagePlan plan =
          ordered(priority(model, {.crosses_barrier = crosses_barrier}), model, {});
      std::vector<std::vector<float>> gradients(plan.groups.size());
      GradientPath path(transport_in_lanes(job.world()), model, plan,
                        buffers_of(gradients, job.rank()));
      Replay replay(model, path, job.trace());
      replay.step();
      for (int i = 0; i < 3; ++i) {
        const ReplayedStep step = replay.step();
        EXPECT_GE(step.seconds, model.compute() - 1e-6);
        EXPECT_NEAR(step.seconds, model.compute() + step.exposed, 1e-9);
      }
      replay.finish();
      for (const auto& group : gradients) EXPECT_EQ(group, std::vector<float>(1000, .5F));
    });
  }
}

TEST(Replay, AKernelDoesTheWorkOfTheModelInEachStepWhateverTheSchedule) {
  constexpr double kRoundsPerSecond = 1 << 20;
  const Model model = model_of_milliseconds();
  for (const bool crosses_barrier : {false, true}) {
    test::run_ranks(2, [&](Job& job) {
      const MessagePlan plan =
          ordered(priority(model, {.crosses_barrier = crosses_barrier}), model, {});
      std::vector<std::vector<float>> gradients(plan.groups.size());
      GradientPath path(transport_in_lanes(job.world()), model, plan,
                        buffers_of(gradients, job.rank()));
      ComputeKernel kernel(kRoundsPerSecond);
      Replay replay(model, path, job.trace(), &kernel);
      replay.step();
      double steps = crosses_barrier ? 1 - model.update() / model.compute() : 1;
      for (int i = 0; i < 3; ++i) {
        steps += 1;
        EXPECT_GT(replay.step().seconds, 0);
        EXPECT_NEAR(static_cast<double>(kernel.rounds()),
                    steps * model.compute() * kRoundsPerSecond, 1.001);
      }
      replay.finish();
      for (const auto& group : gradients) EXPECT_EQ(group, std::vector<float>(1000, .5F));
    });
  }
}

}  // namespace
}  // namespace paceline::schedule
