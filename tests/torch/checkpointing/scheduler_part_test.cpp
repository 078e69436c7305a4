// Schedules of learning rates in checkpoints.
#include <cmath>

#include "tests/torch/checkpointing/small_run.h"

namespace paceline {
namespace {

// A program's own schedule, of the rates with which its optimizer began.
class CosineRate final : public optim::LRScheduler {
 public:
  explicit CosineRate(optim::Optimizer& optimizer)
      : LRScheduler(optimizer), base_(get_current_lrs()) {}

 private:
  std::vector<double> get_lrs() override {
    std::vector<double> rates = base_;
    for (double& rate : rates) rate *= 0.5 * (1 + std::cos(0.1 * (step_count_ + 1)));
    return rates;
  }
  const std::vector<double> base_;
};

using StepsSchedule = std::function<void(std::int64_t step)>;
// Makes a schedule of the optimizer, adds it to the checkpoints and returns how it steps.
using MakesSchedule = std::function<StepsSchedule(optim::Optimizer&, Checkpoints&)>;

// The rates of both groups in each step until `steps`.
std::map<std::int64_t, std::pair<double, double>> rates_of(const std::string& directory,
                                                           std::int64_t steps,
                                                           const MakesSchedule& make) {
  std::map<std::int64_t, std::pair<double, double>> rates;
  run_ranks(1, [&](Job& job) {
    auto net = std::make_shared<Net>();
    std::vector<optim::OptimizerParamGroup> groups;
    for (const double rate : {0.4, 0.1}) {
      const auto all = net->parameters();
      groups.emplace_back(rate > 0.2 ? std::vector{all[0]} : std::vector{all[1]},
                          std::make_unique<optim::SGDOptions>(rate));
    }
    optim::SGD optimizer(groups, optim::SGDOptions(0.1));
    Checkpoints checkpoints(job, directory, {.every = 7, .resume = true});
    checkpoints.add("model", net);
    checkpoints.add("optimizer", optimizer);
    const StepsSchedule schedule = make(optimizer, checkpoints);
    for (std::int64_t step = checkpoints.resume(); step < steps;) {
      const auto rate = [&](std::size_t group) {
        return optimizer.param_groups()[group].options().get_lr();
      };
      rates[step] = {rate(0), rate(1)};
      schedule(step);
      checkpoints.save_if_due(++step);
    }
    checkpoints.finish();
  });
  return rates;
}

void expect_same_rates_after_resuming(const MakesSchedule& make) {
  const TemporaryFolder folder;
  const auto whole = rates_of(folder.file("whole"), 40, make);
  rates_of(folder.file("parted"), 17, make);
  for (const auto& [step, rates] : rates_of(folder.file("parted"), 40, make))
    EXPECT_EQ(rates, whole.at(step)) << "step " << step;
}

TEST(SchedulerPart, StepLRAndItsKinGoOnWithTheSameRates) {
  expect_same_rates_after_resuming([](optim::Optimizer& optimizer, Checkpoints& checkpoints) {
    const auto schedule = std::make_shared<optim::StepLR>(optimizer, 5, 0.5);
    checkpoints.add("rate", *schedule);
    return [schedule](std::int64_t) { schedule->step(); };
  });
  expect_same_rates_after_resuming([](optim::Optimizer& optimizer, Checkpoints& checkpoints) {
    const auto schedule = std::make_shared<CosineRate>(optimizer);
    checkpoints.add("rate", *schedule);
    return [schedule](std::int64_t) { schedule->step(); };
  });
}

TEST(SchedulerPart, AScheduleOnPlateausGoesOnWithItsBestMetricAndItsPatience) {
  using Plateau = optim::ReduceLROnPlateauScheduler;
  expect_same_rates_after_resuming([](optim::Optimizer& optimizer, Checkpoints& checkpoints) {
    const auto schedule = std::make_shared<Plateau>(optimizer, Plateau::min, 0.5F, 3, 1e-4,
                                                    Plateau::rel, /*cooldown=*/2);
    checkpoints.add("rate", *schedule);
    return
        [schedule](std::int64_t step) { schedule->step(step < 4 ? 1.0F / (step + 1.0F) : 0.5F); };
  });
}

TEST(SchedulerPart, AScheduleOfOtherGroupsIsRefusedByName) {
  const TemporaryFolder folder;
  for (const bool resume : {false, true}) {
    run_ranks(1, [&](Job& job) {
      Net net;
      std::vector<optim::OptimizerParamGroup> groups;
      for (const at::Tensor& one : net.parameters()) {
        if (resume && groups.size() == 1) groups.back().params().push_back(one);
        else groups.emplace_back(std::vector{one});
      }
      optim::SGD optimizer(groups, optim::SGDOptions(0.1));
      optim::StepLR schedule(optimizer, 5);
      Checkpoints checkpoints(job, folder.file("run"), {.resume = resume});
      checkpoints.add("rate", schedule);
      if (resume) {
        EXPECT_THAT(misuse_of([&] { checkpoints.resume(); }),
                    AllOf(HasSubstr("8 groups"), HasSubstr("has 1")));
      } else {
        checkpoints.resume();
        EXPECT_TRUE(checkpoints.save(1));
      }
    });
  }
}

}  // namespace
}  // namespace paceline
