#include "paceline/torch/replica/optimizer_factory.h"

#include <torch/torch.h>

#include <unordered_map>

#include "paceline/core/base/base.h"

namespace paceline {
namespace {

// Groups of an optimizer, as they were when this was made.
struct OptimizerSettings {
  explicit OptimizerSettings(const torch::optim::Optimizer& all) {
    for (const torch::optim::OptimizerParamGroup& group : all.param_groups()) {
      const std::shared_ptr<const torch::optim::OptimizerOptions> options =
          group.has_options() ? group.options().clone() : all.defaults().clone();
      for (const at::Tensor& parameter : group.params())
        of_parameter[parameter.unsafeGetTensorImpl()] = options;
    }
  }
  std::unordered_map<const c10::TensorImpl*, std::shared_ptr<const torch::optim::OptimizerOptions>>
      of_parameter;
};

}  // namespace

std::function<void(torch::optim::Optimizer&)> settings_of(const torch::optim::Optimizer& all) {
  return [settings = std::make_shared<const OptimizerSettings>(all)](torch::optim::Optimizer& one) {
    for (torch::optim::OptimizerParamGroup& group : one.param_groups()) {
      for (const at::Tensor& parameter : group.params()) {
        const auto found = settings->of_parameter.find(parameter.unsafeGetTensorImpl());
        if (found == settings->of_parameter.end()) {
          throw_misuse(c10::str("settings_of(): a parameter of shape ", parameter.sizes(),
                                " is in no group of the optimizer whose settings are taken: hand "
                                "it all parameters that are trained"));
        }
        group.set_options(found->second->clone());
      }
    }
  };
}

namespace replica {

const torch::optim::OptimizerOptions& options_of(const torch::optim::Optimizer& all,
                                                 const at::Tensor& parameter,
                                                 const std::string& name) {
  for (const torch::optim::OptimizerParamGroup& group : all.param_groups()) {
    for (const at::Tensor& member : group.params()) {
      if (member.is_same(parameter)) return group.has_options() ? group.options() : all.defaults();
    }
  }
  throw_misuse("optimizers_like(): parameter '" + name +
               "' is in no group of the optimizer whose settings are taken: hand it all "
               "parameters that are trained");
}

}  // namespace replica
}  // namespace paceline
