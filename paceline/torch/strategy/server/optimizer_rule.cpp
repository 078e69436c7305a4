#include "paceline/torch/strategy/server/optimizer_rule.h"

#include <torch/torch.h>

#include <set>
#include <string_view>

#include "paceline/core/base/base.h"
#include "paceline/torch/optimizers/optimizers.h"

namespace paceline::strategy {
namespace {

namespace optim = torch::optim;

[[noreturn]] void refuse(const std::string& synchrony, const std::string& why) {
  throw_misuse(c10::str("synchrony '", synchrony, "' has servers step in the optimizer's place, ",
                        why,
                        "; or take ssp or asp with update=worker, where each worker's own "
                        "optimizer of any kind steps"));
}

// The first difference of two rules: "rate is 0.1 and 0.2".
std::string difference(const OptimizerRule& one, const OptimizerRule& other) {
  if (one.name != other.name) return c10::str("they are ", one.name, " and ", other.name);
  for (const auto& [name, value] : one.settings)
    if (value != other.settings.at(name))
      return c10::str(name, " is ", value, " and ", other.settings.at(name));
  return {};
}

// Servers' rules call options by words of their own.
std::string setting_of(std::string_view option) {
  if (option == "lr") return "rate";
  if (option == "lr_decay") return "rate_decay";
  return option == "eps" ? "epsilon" : std::string(option);
}

OptimizerRule rule_of_group(const optim::Optimizer& optimizer,
                            const optim::OptimizerParamGroup& group, const std::string& synchrony) {
  const optimizers::KnownOptimizer* const known = optimizers::known(optimizer);
  if (known == nullptr || known->server_rule.empty())
    refuse(synchrony,
           "and they have no rule for this one: take SGD, Adagrad, RMSprop, Adam or AdamW");
  OptimizerRule rule{.name = std::string(known->server_rule), .settings = {}};
  const auto options = (group.has_options() ? group.options() : optimizer.defaults()).clone();
  for (const optimizers::OptimizerOption& one : known->options(*options)) {
    if (one.name != known->unruled) {
      rule.settings[setting_of(one.name)] = one.number();
    } else if (one.number() != 0) {
      const std::string what =
          one.is_switch() ? std::string(one.name) : c10::str("an ", one.name, " other than 0");
      refuse(synchrony, c10::str("and their rule ", rule.name, " has no ", what, ": leave it out"));
    }
  }
  return rule;
}

}  // namespace

OptimizerRule rule_of(const replica::Optimizers& optimizers,
                      const std::vector<replica::Parameter>& parameters,
                      const std::string& synchrony) {
  OptimizerRule all;
  std::set<const c10::TensorImpl*> stepped;
  for (const optim::Optimizer* const optimizer : optimizers) {
    for (const auto& group : optimizer->param_groups()) {
      OptimizerRule rule = rule_of_group(*optimizer, group, synchrony);
      if (all.name.empty()) all = rule;
      if (rule != all)
        refuse(synchrony, c10::str("by one rule for all parameters, and groups of them differ (",
                                   difference(all, rule), "): give all the same options"));
      for (const at::Tensor& one : group.params()) stepped.insert(one.unsafeGetTensorImpl());
    }
  }
  for (const replica::Parameter& one : parameters) {
    if (stepped.contains(one.tensor.unsafeGetTensorImpl())) continue;
    refuse(synchrony, c10::str("all parameters in each step, and parameter '", one.name,
                               "' is in no group of it: hand it all that are trained, and freeze "
                               "the others before DataParallel is made"));
  }
  return all;
}

}  // namespace paceline::strategy
