#include "paceline/torch/strategy/server/optimizer_rule.h"

#include <torch/torch.h>

#include <array>
#include <set>
#include <tuple>
#include <typeinfo>
#include <utility>

#include "paceline/core/base/base.h"

namespace paceline::strategy {
namespace {

namespace optim = torch::optim;

// Servers make this of the options of an optimizer, or cannot, as the complaint tells.
struct Translated {
  OptimizerRule rule;
  std::string complaint = {};
};

Translated translated(const optim::SGDOptions& options) {
  return {{"sgd",
           {{"rate", options.lr()},
            {"momentum", options.momentum()},
            {"dampening", options.dampening()},
            {"nesterov", options.nesterov() ? 1 : 0},
            {"weight_decay", options.weight_decay()}}}};
}

Translated translated(const optim::AdagradOptions& options) {
  Translated result{{"adagrad",
                     {{"rate", options.lr()},
                      {"rate_decay", options.lr_decay()},
                      {"weight_decay", options.weight_decay()},
                      {"epsilon", options.eps()}}}};
  if (options.initial_accumulator_value() != 0)
    result.complaint = "an initial_accumulator_value other than 0";
  return result;
}

Translated translated(const optim::RMSpropOptions& options) {
  return {{"rmsprop",
           {{"rate", options.lr()},
            {"alpha", options.alpha()},
            {"epsilon", options.eps()},
            {"momentum", options.momentum()},
            {"centered", options.centered() ? 1 : 0},
            {"weight_decay", options.weight_decay()}}}};
}

template <typename AdamOptions>
Translated translated_adam(const char* name, const AdamOptions& options) {
  const auto& [beta1, beta2] = options.betas();
  Translated result{{name,
                     {{"rate", options.lr()},
                      {"beta1", beta1},
                      {"beta2", beta2},
                      {"epsilon", options.eps()},
                      {"weight_decay", options.weight_decay()}}}};
  if (options.amsgrad()) result.complaint = "amsgrad";
  return result;
}
Translated translated(const optim::AdamOptions& options) {
  return translated_adam("adam", options);
}
Translated translated(const optim::AdamWOptions& options) {
  return translated_adam("adamw", options);
}

struct Kind {
  bool (*is)(const optim::Optimizer&);
  Translated (*translate)(const optim::OptimizerOptions&);
};

template <typename Optimizer, typename Options>
Kind kind() {
  return {[](const optim::Optimizer& one) { return typeid(one) == typeid(Optimizer); },
          [](const optim::OptimizerOptions& options) {
            return translated(static_cast<const Options&>(options));
          }};
}

const std::array<Kind, 5>& kinds() {
  static const std::array<Kind, 5> all = {
      kind<optim::SGD, optim::SGDOptions>(), kind<optim::Adagrad, optim::AdagradOptions>(),
      kind<optim::RMSprop, optim::RMSpropOptions>(), kind<optim::Adam, optim::AdamOptions>(),
      kind<optim::AdamW, optim::AdamWOptions>()};
  return all;
}

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

OptimizerRule rule_of_group(const optim::Optimizer& optimizer,
                            const optim::OptimizerParamGroup& group, const std::string& synchrony) {
  const auto found =
      std::ranges::find_if(kinds(), [&](const Kind& one) { return one.is(optimizer); });
  if (found == kinds().end())
    refuse(synchrony,
           "and they have no rule for this one: take SGD, Adagrad, RMSprop, Adam or AdamW");
  Translated result =
      found->translate(group.has_options() ? group.options() : optimizer.defaults());
  if (!result.complaint.empty())
    refuse(synchrony, c10::str("and their rule ", result.rule.name, " has no ", result.complaint,
                               ": leave it out"));
  return std::move(result.rule);
}

}  // namespace

OptimizerRule rule_of(const parallel::Optimizers& optimizers,
                      const std::vector<parallel::Parameter>& parameters,
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
  for (const parallel::Parameter& one : parameters) {
    if (stepped.contains(one.tensor.unsafeGetTensorImpl())) continue;
    refuse(synchrony, c10::str("all parameters in each step, and parameter '", one.name,
                               "' is in no group of it: hand it all that are trained, and freeze "
                               "the others before DataParallel is made"));
  }
  return all;
}

}  // namespace paceline::strategy
