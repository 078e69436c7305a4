#include "paceline/torch/replica/ended_step.h"

#include <torch/torch.h>

#include <unordered_set>

#include "paceline/core/base/base.h"

namespace paceline::replica {

void EndedStep::refuse(const std::string& precision) const {
  if (!not_hooked.empty()) {
    throw_misuse(c10::str("parameter '", not_hooked,
                          "' was loaded or converted after DataParallel was made "
                          "(torch::load(model), model.to(dtype), set_data()), so its gradients are "
                          "no longer averaged: load and convert a model before DataParallel is "
                          "made, or call rebind(group) afterwards"));
  }
  if (!outcome.complaint.empty()) throw_misuse(outcome.complaint);
  if (!unfrozen.empty()) {
    throw_misuse(c10::str("parameter '", unfrozen,
                          "' was frozen when DataParallel was made and has a gradient now, of this "
                          "rank alone: unfreeze parameters before DataParallel is made, or call "
                          "rebind(group) afterwards"));
  }
  if (!unscaled.empty()) {
    throw_misuse(c10::str("precision \"", precision, "\" scales the loss, and the gradient of '",
                          unscaled,
                          "' was made by a backward pass that did not: call "
                          "parallel.backward(loss) in place of loss.backward(). The step was left "
                          "out"));
  }
  if (!not_finite.empty()) throw_misuse(not_finite);
  if (!added.empty()) {
    throw_misuse(c10::str("parameter '", added,
                          "' came to the model after DataParallel was made and has a gradient of "
                          "this rank alone, with which the replicas would drift apart: add layers "
                          "before DataParallel is made, or make another one"));
  }
}

std::string unfrozen_parameter(const ModelParts& parts) {
  for (const Parameter& frozen : parts.frozen)
    if (frozen.tensor.requires_grad() && frozen.tensor.grad().defined()) return frozen.name;
  return {};
}

std::string added_parameter(const ModelParts& parts) {
  std::unordered_set<const c10::TensorImpl*> known;
  for (const auto* some : {&parts.dense, &parts.sparse, &parts.frozen})
    for (const Parameter& each : *some) known.insert(each.leaf().unsafeGetTensorImpl());
  for (const ModulePart& part : parts.modules) {
    const auto module = part.module.lock();
    if (module == nullptr) continue;
    for (const auto& item : module->named_parameters()) {
      const at::Tensor& tensor = item.value();
      if (tensor.grad().defined() && !known.contains(tensor.unsafeGetTensorImpl()))
        return part.name.empty() ? item.key() : part.name + "." + item.key();
    }
  }
  return {};
}

}  // namespace paceline::replica
