// Rates that differ from rank to rank, where replicas are held equal.
#include "paceline/torch/parallel/distributed_optimizer.h"
#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

// The failure of the step in which rank 1 has another rate, the sixth of a training. `step` ends
// one.
using EndStep = std::function<void(DataParallel&, torch::optim::Optimizer&)>;

std::string told_in_sixth_step(const DataParallelOptions& options, const EndStep& end_step) {
  std::string told;
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job, options);
    const auto parameters = options.zero_stage > 0 ? parallel.parameters() : net.parameters();
    torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int step = 0; step < 8; ++step) {
      if (step == 5 && job.rank() == 1)
        static_cast<torch::optim::SGDOptions&>(optimizer.param_groups()[0].options()).lr(0.05);
      optimizer.zero_grad();
      loss_of(net, samples(2 * step + job.rank(), 4), true).backward();
      const at::Tensor before = parallel.parameters()[0].detach().clone();
      try {
        end_step(parallel, optimizer);
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::mismatch) << error.what();
        EXPECT_EQ(step, 5);
        EXPECT_TRUE(parallel.parameters()[0].equal(before)) << "nothing was updated";
        if (job.rank() == 0) told = error.what();
        return;
      }
    }
  });
  return told;
}

const EndStep kStep = [](DataParallel& parallel, torch::optim::Optimizer& optimizer) {
  parallel.step(optimizer);
};

TEST(LearningRates, ThatDifferAreToldByTheStepThatWouldUseThem) {
  for (const auto& options :
       {DataParallelOptions{}, DataParallelOptions{.synchrony = "robust:rule=median,faulty=0"},
        DataParallelOptions{.zero_stage = 1}, DataParallelOptions{.zero_stage = 3},
        DataParallelOptions{.max_grad_norm = 1}}) {
    EXPECT_THAT(told_in_sixth_step(options, kStep),
                AllOf(HasSubstr("the optimizer's learning rate of '"), HasSubstr("on rank 0 and"),
                      HasSubstr("0.05"), HasSubstr("mean(loss)")))
        << options.synchrony << " " << options.zero_stage;
  }
}

// The rates of such optimizers are set when they step: the next step tells.
TEST(LearningRates, OfOwnOptimizersAreToldOneStepLater) {
  run_ranks(2, [](Job& job) {
    Net net;
    DataParallel parallel(net, job, {.optimizer = [](const at::Tensor& parameter) {
                            return std::make_unique<torch::optim::SGD>(std::vector{parameter}, 0.1);
                          }});
    std::string told;
    int step = 0;
    try {
      for (; step < 8; ++step) {
        loss_of(net, samples(2 * step + job.rank(), 4), true).backward();
        parallel.step([rate = step >= 5 && job.rank() == 1 ? 0.05 : 0.1](auto& one) {
          one.param_groups()[0].options().set_lr(rate);
        });
      }
    } catch (const Error& error) {
      told = error.what();
    }
    EXPECT_EQ(step, 6);
    EXPECT_THAT(told, HasSubstr("learning rate of 'first.weight'"));
    try {  // the replicas differ, which would fail this process at its end
      parallel.finish();
    } catch (const Error&) {
    }
  });
}

TEST(LearningRates, AreComparedByADistributedOptimizerToo) {
  run_ranks(2, [](Job& job) {
    Net net;
    auto wrapped = sgd(net);
    DistributedOptimizer optimizer(wrapped, job);
    std::string told;
    int step = 0;
    try {
      for (; step < 8; ++step) {
        if (step == 5 && job.rank() == 1) wrapped.param_groups()[0].options().set_lr(0.05);
        optimizer.zero_grad();
        loss_of(net, samples(2 * step + job.rank(), 4), true).backward();
        optimizer.step();
      }
    } catch (const Error& error) {
      told = error.what();
    }
    EXPECT_EQ(step, 5);
    EXPECT_THAT(told, HasSubstr("learning rate of 'group 0, parameter 0'"));
  });
}

// Groups are each rank's own affair, and replicas that may differ may have rates that do.
TEST(LearningRates, AreFreeWhereTheyChangeNothing) {
  SameEverywhere same;
  run_ranks(2, [&](Job& job) {
    Net net;
    DataParallel parallel(net, job);
    const auto all = net.parameters();
    std::vector<torch::optim::OptimizerParamGroup> groups;
    if (job.rank() == 0) groups.emplace_back(all);
    else
      for (const auto& each : all) groups.emplace_back(std::vector{each});
    torch::optim::SGD optimizer(groups, torch::optim::SGDOptions(0.1));
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      loss_of(net, samples(2 * step + job.rank(), 4), true).backward();
      parallel.step(optimizer);
    }
    same.tell("parameters", net.parameters());
  });
  run_ranks(2, [](Job& job) {
    Net net;
    DataParallel parallel(net, job, {.synchrony = "local_sgd:period=2"});
    torch::optim::SGD optimizer(net.parameters(), 0.1 + 0.1 * job.rank());
    for (int step = 0; step < 4; ++step) {
      optimizer.zero_grad();
      loss_of(net, samples(2 * step + job.rank(), 4), true).backward();
      parallel.step(optimizer);
    }
  });
}

}  // namespace
}  // namespace paceline
