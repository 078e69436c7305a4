#include "paceline/torch/replica/optimizer_factory.h"

#include <gmock/gmock.h>

#include "tests/torch/parallel/small_training.h"

namespace paceline {
namespace {

// Biases without weight decay and with another rate, everything else with both.
torch::optim::SGD with_groups(const nn::Module& net) {
  std::vector<at::Tensor> weights, biases;
  for (const auto& each : net.named_parameters())
    (each.key().ends_with("bias") ? biases : weights).push_back(each.value());
  const auto group = [](std::vector<at::Tensor> parameters, double rate, double decay) {
    return torch::optim::OptimizerParamGroup(
        std::move(parameters),
        std::make_unique<torch::optim::SGDOptions>(
            torch::optim::SGDOptions(rate).momentum(0.9).weight_decay(decay)));
  };
  return torch::optim::SGD({group(weights, 0.1, 0.01), group(biases, 0.2, 0)},
                           torch::optim::SGDOptions(0.1));
}

// The fingerprint of the parameters after some steps with a rate that falls every other step.
std::string trained_with_groups(const std::string& schedule_name, bool own_optimizers) {
  std::string digest;
  run_ranks(2, {.share_memory = false}, [&](Job& job) {
    Net net(at::kFloat);
    torch::optim::SGD all = with_groups(net);
    torch::optim::StepLR rates(all, /*step_size=*/2, /*gamma=*/0.5);
    auto options = kSmallBuckets;
    options.schedule = schedule_name;
    if (own_optimizers) options.optimizer = optimizers_like(all);
    DataParallel parallel(net, job, options);
    for (int step = 0; step < 9; ++step) {
      if (!own_optimizers) all.zero_grad();
      loss_of(net, samples(step * 2 + job.rank(), 4), true).backward();
      if (own_optimizers) parallel.step(settings_of(all));
      else parallel.step(all);
      rates.step();
    }
    parallel.finish();
    if (job.rank() == 0) digest = sha256_of(net.parameters());
  });
  return digest;
}

TEST(OptimizerFactory, GroupsAndAScheduleOfRatesGiveTheBitsOfOneOptimizer) {
  const std::string expected = trained_with_groups("buckets", false);
  for (const std::string name : {"buckets", "merged", "priority", "general"})
    EXPECT_EQ(trained_with_groups(name, true), expected) << name;
}

TEST(OptimizerFactory, LearnsTheNameOfEachParameter) {
  run_ranks(2, [](Job& job) {
    Net net;
    std::vector<std::string> names, expected;
    for (const auto& each : net.named_parameters()) expected.push_back(each.key());
    const auto make = [&](const at::Tensor& parameter, const std::string& name) {
      names.push_back(name);
      EXPECT_TRUE(net.named_parameters()[name].is_same(parameter));
      return std::make_unique<torch::optim::SGD>(std::vector{parameter}, 0.1);
    };
    const DataParallel parallel(net, job, {.optimizer = make});
    EXPECT_EQ(names, expected);
  });
}

TEST(OptimizerFactory, AnOptimizerOfAnotherKindKeepsItsOwnOptions) {
  const at::Tensor parameter = torch::ones({2}).requires_grad_();
  const torch::optim::AdamW all({parameter}, torch::optim::AdamWOptions(0.25).weight_decay(0.125));
  const auto one = optimizers_like(all)(parameter, "one");
  const auto& options =
      dynamic_cast<const torch::optim::AdamWOptions&>(one->param_groups()[0].options());
  EXPECT_EQ(options.lr(), 0.25);
  EXPECT_EQ(options.weight_decay(), 0.125);
  EXPECT_NE(dynamic_cast<torch::optim::AdamW*>(one.get()), nullptr);
}

TEST(OptimizerFactory, AParameterInNoGroupIsRefusedByName) {
  run_ranks(1, [](Job& job) {
    Net net;
    const torch::optim::SGD all({net.parameters()[0]}, 0.1);
    const std::string second = net.named_parameters().keys()[1];
    try {
      const DataParallel parallel(net, job, {.optimizer = optimizers_like(all)});
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::misuse);
      EXPECT_THAT(error.what(), testing::HasSubstr("'" + second + "'"));
    }
    torch::optim::SGD stranger({net.parameters()[1]}, 0.1);
    EXPECT_THROW(settings_of(all)(stranger), Error);
  });
}

// Each of these would step some parameters several times a step, or none.
TEST(OptimizerFactory, AnOptimizerOfOtherTensorsThanItsParameterIsRefusedByName) {
  using Tensors = std::vector<at::Tensor>;
  const auto refusal = [](const std::function<Tensors(Net&, const at::Tensor&)>& tensors_of) {
    std::string told;
    run_ranks(1, [&](Job& job) {
      Net net;
      told = misuse_of([&] {
        DataParallel parallel(net, job, {.optimizer = [&](const at::Tensor& parameter) {
                                return std::make_unique<torch::optim::SGD>(
                                    tensors_of(net, parameter), 0.1);
                              }});
      });
    });
    return told;
  };
  EXPECT_THAT(refusal([](Net& net, const at::Tensor&) { return net.parameters(); }),
              AllOf(HasSubstr("of 8 tensors"), HasSubstr("'first.weight'")));
  EXPECT_THAT(refusal([](Net&, const at::Tensor&) { return Tensors(); }),
              HasSubstr("of 0 tensors"));
  EXPECT_THAT(refusal([](Net&, const at::Tensor& parameter) {
                return Tensors{parameter.detach().clone().requires_grad_()};
              }),
              AllOf(HasSubstr("another tensor f64[8, 6]"), HasSubstr("'first.weight'")));
  EXPECT_THAT(refusal([](Net& net, const at::Tensor&) { return Tensors{net.last->bias}; }),
              HasSubstr("another tensor"));
}

}  // namespace
}  // namespace paceline
