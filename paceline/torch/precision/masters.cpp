#include "paceline/torch/precision/masters.h"

#include <torch/torch.h>

#include <set>
#include <utility>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/norm/norm.h"

namespace paceline::precision {
namespace {

using replica::Parameter;
using Tensors = std::set<const void*>;

bool is_known_norm(const torch::nn::Module& module) {
  return module.as<torch::nn::BatchNorm1dImpl>() != nullptr ||
         module.as<torch::nn::BatchNorm2dImpl>() != nullptr ||
         module.as<torch::nn::BatchNorm3dImpl>() != nullptr ||
         module.as<SyncBatchNormImpl>() != nullptr ||
         module.as<torch::nn::LayerNormImpl>() != nullptr;
}

// The tensors of all layers that are no norms.
Tensors tensors_to_halve(torch::nn::Module& model,
                         const std::function<bool(const torch::nn::Module&)>& is_norm) {
  Tensors found;
  const auto look_at = [&](const torch::nn::Module& module) {
    if (is_known_norm(module) || is_norm(module)) return;
    for (const at::Tensor& one : module.parameters(/*recurse=*/false))
      if (one.defined()) found.insert(one.unsafeGetTensorImpl());
    for (const at::Tensor& one : module.buffers(/*recurse=*/false))
      if (one.defined()) found.insert(one.unsafeGetTensorImpl());
  };
  look_at(model);
  for (const auto& module : model.modules(/*include_self=*/false)) look_at(*module);
  return found;
}

// `whole`: has its values.
void halve_one(at::Tensor tensor, const at::Tensor& whole, bool is_master, at::ScalarType type,
               HalvedTensors& halved) {
  tensor.mutable_grad().reset();
  tensor.set_data(whole.detach().to(type));
  halved.add(tensor, whole, is_master);
}

// The same placements, of which the masters have a part as their tensors of the model have.
replica::Placements placements_of_masters(const replica::ModelParts& parts) {
  Communicator* const group = parts.placements.group();
  if (group == nullptr) return {};
  std::vector<replica::Placement> placements;
  for (const Parameter& each : parts.trained_and_frozen()) {
    const auto* const found =
        parts.placements.find(each.computed.defined() ? each.computed : each.tensor);
    if (found == nullptr) continue;
    placements.push_back(*found);
    if (!each.computed.defined()) continue;
    placements.push_back(*found);
    placements.back().tensor = each.tensor;
    replica::mark_part(placements.back());
  }
  return {std::move(placements), *group};
}

}  // namespace

void require_float32(const replica::ModelParts& parts) {
  for (const Parameter& each : parts.trained()) {
    if (each.tensor.scalar_type() == at::kFloat) continue;
    throw_misuse(c10::str("precision: o1 and o2 train models of float32, and parameter '",
                          each.name, "' is ", describe(each.tensor),
                          ": convert the model with model.to(torch::kFloat), or take \"none\""));
  }
}

HalvedTensors::~HalvedTensors() {
  const at::NoGradGuard no_grad;
  for (Halved& each : tensors_) {
    if (each.tensor.scalar_type() != each.type) continue;  // it was converted meanwhile
    try {
      each.tensor.mutable_grad().reset();
      each.tensor.set_data(each.whole.defined() ? each.whole.detach()
                                                : each.tensor.detach().to(at::kFloat));
      if (each.is_master) each.tensor.mutable_grad() = each.whole.grad();
    } catch (const std::exception&) {  // there is no memory for it: it stays as it is
    }
  }
}

void HalvedTensors::add(const at::Tensor& tensor, const at::Tensor& whole, bool is_master) {
  tensors_.push_back({tensor, whole, tensor.scalar_type(), is_master});
}

void HalvedTensors::begin() {
  for (Halved& each : tensors_)
    if (!each.is_master) each.whole.reset();
}

HalvedTensors halve(torch::nn::Module& model, replica::ModelParts& parts, at::ScalarType type,
                    const std::function<bool(const torch::nn::Module&)>& is_norm) {
  require_float32(parts);
  if (!parts.sparse.empty()) {
    throw_misuse(c10::str("precision o2 has no masters of sparse gradients, which parameter '",
                          parts.sparse.front().name,
                          "' has: make them dense, or take precision \"o1\""));
  }
  if (const auto aliases = replica::aliases_in(parts.dense)) {
    throw_misuse(c10::str("precision o2 gives parameters memory of their own, and '",
                          aliases->first, "' and '", aliases->second,
                          "' lie in one storage: register one tensor under both names where layers "
                          "share it, else give each its own memory, as by "
                          "weight.set_data(weight.clone())"));
  }
  const at::NoGradGuard no_grad;
  const Tensors chosen = tensors_to_halve(model, is_norm);
  HalvedTensors halved;
  for (const auto* some : {&parts.frozen, &parts.buffers}) {
    for (const Parameter& each : *some) {
      const bool is_chosen = chosen.contains(each.tensor.unsafeGetTensorImpl());
      if (is_chosen && each.tensor.scalar_type() == at::kFloat)
        halve_one(each.tensor, each.tensor.detach(), false, type, halved);
    }
  }
  for (Parameter& each : parts.dense) {
    if (!chosen.contains(each.tensor.unsafeGetTensorImpl())) continue;
    at::Tensor master = each.tensor.detach().clone();
    master.set_requires_grad(true);
    halve_one(each.tensor, master, true, type, halved);
    each.computed = std::exchange(each.tensor, std::move(master));
  }
  parts.placements = placements_of_masters(parts);
  return halved;
}

}  // namespace paceline::precision
