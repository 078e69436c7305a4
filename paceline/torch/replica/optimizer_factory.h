// Optimizers of one parameter each, for DataParallelOptions::optimizer: of your own making, by
// name, or with the groups and the learning-rate schedule of an ordinary optimizer:
//
//   torch::optim::SGD all(groups, torch::optim::SGDOptions(0.1).momentum(0.9));
//   torch::optim::StepLR schedule(all, /*step_size=*/30, /*gamma=*/0.1);
//   paceline::DataParallel parallel(model, job, {.optimizer = paceline::optimizers_like(all)});
//   ...
//   parallel.step(paceline::settings_of(all));
//   schedule.step();
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace paceline {

// Makes the optimizer of one parameter, the same on all ranks: any callable that takes the
// parameter, or the parameter and its name in the model ("fc.weight"). DataParallel refuses an
// optimizer of other tensors, or of a copy.
class OptimizerFactory {
 public:
  using Made = std::unique_ptr<torch::optim::Optimizer>;
  using ByName = std::function<Made(const at::Tensor& parameter, const std::string& name)>;

  OptimizerFactory() = default;
  template <typename Make>
  requires(!std::same_as<std::remove_cvref_t<Make>, OptimizerFactory> &&
           std::is_invocable_r_v<Made, Make&, const at::Tensor&, const std::string&>)
      OptimizerFactory(Make&& make)
      : make_(std::forward<Make>(make)) {}
  template <typename Make>
  requires(!std::same_as<std::remove_cvref_t<Make>, OptimizerFactory> &&
           std::is_invocable_r_v<Made, Make&, const at::Tensor&>) OptimizerFactory(Make&& make)
      : make_([make = std::forward<Make>(make)](const at::Tensor& parameter,
                                                const std::string&) mutable -> Made {
          return make(parameter);
        }) {}

  explicit operator bool() const { return static_cast<bool>(make_); }
  Made operator()(const at::Tensor& parameter, const std::string& name) const {
    return make_(parameter, name);
  }

 private:
  ByName make_;
};

// Sets the options of each optimizer that stands for a parameter of `all` to those that the
// parameter's group in `all` has now: to be handed to DataParallel::step, in each step. It holds a
// copy, so that a schedule may change `all` as soon as step() has returned. THROWS Error (misuse)
// when it is called, for an optimizer of a parameter that `all` has not.
std::function<void(torch::optim::Optimizer& one)> settings_of(const torch::optim::Optimizer& all);

namespace replica {

// The options of the group that holds the parameter. THROWS Error (misuse): `all` has none.
const torch::optim::OptimizerOptions& options_of(const torch::optim::Optimizer& all,
                                                 const at::Tensor& parameter,
                                                 const std::string& name);

// Becomes the type of options that an optimizer's constructor asks for.
struct AnyOptions {
  const torch::optim::OptimizerOptions& options;
  template <std::derived_from<torch::optim::OptimizerOptions> Options>
  operator Options() const {
    return dynamic_cast<const Options&>(options);
  }
};

}  // namespace replica

// Sets what has changed, such as the learning rate, before an optimizer steps.
using PrepareOptimizer = std::function<void(torch::optim::Optimizer& optimizer)>;

// Gives each parameter an optimizer of the same kind, with the options of its group in `all`. `all`
// itself never steps and keeps no state; it must live as long as the DataParallel.
template <std::derived_from<torch::optim::Optimizer> Kind>
OptimizerFactory optimizers_like(const Kind& all) {
  return [&all](const at::Tensor& parameter, const std::string& name) -> OptimizerFactory::Made {
    return std::make_unique<Kind>(std::vector<at::Tensor>{parameter},
                                  replica::AnyOptions{replica::options_of(all, parameter, name)});
  };
}

}  // namespace paceline
