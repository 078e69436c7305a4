#include "paceline/torch/replica/parts/model_parts.h"

#include <torch/nn/module.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::replica {
namespace {

// The units in which each tensor stands; the empty name stands for none.
using UnitsOfTensors = std::map<const void*, std::set<std::string>>;

bool is_list(const torch::nn::Module& module) {
  return module.as<torch::nn::SequentialImpl>() != nullptr ||
         module.as<torch::nn::ModuleListImpl>() != nullptr;
}

void walk(const torch::nn::Module& module, const std::string& path, bool is_element,
          const std::string& unit, UnitsOfTensors& units) {
  const bool list = is_list(module);
  const std::string& own = unit.empty() && is_element && !list ? path : unit;
  for (const auto& item : module.named_parameters(/*recurse=*/false))
    units[item.value().unsafeGetTensorImpl()].insert(own);
  for (const auto& child : module.named_children()) {
    const std::string below = path.empty() ? child.key() : path + "." + child.key();
    walk(*child.value(), below, list, own, units);
  }
}

// The units of a model are parts that compute one after the other, so that a rank needs the
// parameters of one at a time. This is the unit of each parameter, by the names that
// named_parameters() gives. A unit is an element of a torch::nn::Sequential or ModuleList that is
// none itself, with all within it, and has its name. A parameter outside of all such elements, or
// registered in two of them, has none.
std::map<std::string, std::string> units_of(const torch::nn::Module& model) {
  UnitsOfTensors of_tensors;
  walk(model, "", false, "", of_tensors);
  std::map<std::string, std::string> units;
  for (const auto& item : model.named_parameters()) {
    const auto& found = of_tensors[item.value().unsafeGetTensorImpl()];
    if (found.size() == 1 && !found.begin()->empty()) units[item.key()] = *found.begin();
  }
  return units;
}

void require_carried(const std::string& what, const at::Tensor& tensor) {
  if (tensor.layout() == at::kStrided && (tensor.is_cpu() || tensor.is_cuda())) return;
  throw_misuse(c10::str("DataParallel: ", what, " has layout ", tensor.layout(), " on ",
                        tensor.device(),
                        "; dense tensors in the memory of the host or of a CUDA device are "
                        "carried: move the model with model.to(torch::kCPU)"));
}

void require_trainable(const std::string& what, const at::Tensor& tensor) {
  const auto dtype = dtype_of(tensor.scalar_type());
  if (dtype && can_reduce(ReduceOp::average, *dtype)) return;
  if (tensor.is_complex()) {
    throw_misuse(
        c10::str("DataParallel: ", what,
                 " is complex, and gradients of that type are not averaged. Register its "
                 "real and imaginary parts, at::view_as_real(tensor).clone(), as the "
                 "parameter, and compute with at::view_as_complex(parameter); a conversion "
                 "to a real type would lose the imaginary part"));
  }
  throw_misuse(c10::str("DataParallel: ", what,
                        " cannot be trained: gradients of its type cannot be averaged. Convert the "
                        "model with model.to(torch::kFloat), or freeze the parameter with "
                        "requires_grad_(false)"));
}

std::string line_of(const char* kind, const Parameter& parameter) {
  const std::string mark = mark_of(parameter.tensor);
  return c10::str(kind, " ", parameter.name, " ", describe(parameter.tensor),
                  mark.empty() ? "" : ", ", mark);
}

std::vector<ModulePart> modules_of(const torch::nn::Module& model) {
  if (!model.weak_from_this().expired()) return {{{}, model.weak_from_this()}};
  std::vector<ModulePart> children;
  for (const auto& item : model.named_children()) children.push_back({item.key(), item.value()});
  return children;
}

// The weights of embeddings that make sparse gradients.
std::set<const void*> sparse_weights(const torch::nn::Module& model) {
  std::set<const void*> weights;
  const auto look_at = [&](const torch::nn::Module& module) {
    if (const auto* table = module.as<torch::nn::EmbeddingImpl>();
        table != nullptr && table->options.sparse()) {
      weights.insert(table->weight.unsafeGetTensorImpl());
    }
    if (const auto* bag = module.as<torch::nn::EmbeddingBagImpl>();
        bag != nullptr && bag->options.sparse()) {
      weights.insert(bag->weight.unsafeGetTensorImpl());
    }
  };
  look_at(model);
  for (const auto& module : model.modules(/*include_self=*/false)) look_at(*module);
  return weights;
}

class Sorting {
 public:
  Sorting(const std::vector<std::string>& sparse, std::set<const void*> weights)
      : names_(sparse.begin(), sparse.end()), weights_(std::move(weights)) {}

  void parameter(const std::string& name, const at::Tensor& tensor) {
    const bool named = names_.erase(name) > 0;
    if (!is_new(tensor)) return;
    const std::string what = c10::str("parameter ", name, " ", describe(tensor));
    require_carried(what, tensor);
    require_one_device(name, tensor);
    if (!tensor.requires_grad()) {
      parts_.frozen.push_back({name, tensor});
      return;
    }
    require_trainable(what, tensor);
    const bool sparse = named || weights_.contains(tensor.unsafeGetTensorImpl());
    (sparse ? parts_.sparse : parts_.dense).push_back({name, tensor});
  }

  void buffer(const std::string& name, const at::Tensor& tensor) {
    if (!is_new(tensor)) return;
    require_carried(c10::str("buffer ", name, " ", describe(tensor)), tensor);
    parts_.buffers.push_back({name, tensor});
  }

  ModelParts finish() && {
    if (!names_.empty()) {
      throw_misuse(
          c10::str("DataParallelOptions::sparse names '", *names_.begin(),
                   "', but the model has no such parameter; named_parameters() lists them"));
    }
    if (parts_.dense.empty() && parts_.sparse.empty()) {
      throw_misuse(
          "DataParallel: no parameter of this model requires a gradient, so there is nothing to "
          "train");
    }
    return std::move(parts_);
  }

 private:
  void require_one_device(const std::string& name, const at::Tensor& tensor) {
    if (first_.name.empty()) first_ = {name, tensor};
    if (tensor.device() == first_.tensor.device()) return;
    throw_misuse(c10::str("DataParallel: parameter ", first_.name, " lies on ",
                          first_.tensor.device(), " and parameter ", name, " on ", tensor.device(),
                          "; a rank trains on one device: move the whole model with model.to()"));
  }
  bool is_new(const at::Tensor& tensor) {
    return tensor.defined() && seen_.insert(tensor.unsafeGetTensorImpl()).second;
  }

  std::set<std::string> names_;  // not met yet
  std::set<const void*> weights_, seen_;
  Parameter first_;
  ModelParts parts_;
};

}  // namespace

std::vector<Parameter> ModelParts::trained() const {
  std::vector<Parameter> parameters = dense;
  parameters.insert(parameters.end(), sparse.begin(), sparse.end());
  return parameters;
}

at::Device ModelParts::device() const {
  return (dense.empty() ? sparse : dense).front().tensor.device();
}

std::vector<Parameter> ModelParts::trained_and_frozen() const {
  std::vector<Parameter> parameters = trained();
  parameters.insert(parameters.end(), frozen.begin(), frozen.end());
  return parameters;
}

namespace {

bool have_common_elements(const at::Tensor& a, const at::Tensor& b) {
  const auto* const a_begin = static_cast<const std::byte*>(a.const_data_ptr());
  const auto* const b_begin = static_cast<const std::byte*>(b.const_data_ptr());
  return a_begin < b_begin + b.nbytes() && b_begin < a_begin + a.nbytes();
}

}  // namespace

std::optional<std::pair<std::string, std::string>> aliases_in(
    const std::vector<Parameter>& parameters, Aliases kind) {
  std::map<const void*, std::vector<const Parameter*>> in_storage;
  for (const Parameter& one : parameters) {
    auto& before = in_storage[one.tensor.storage().unsafeGetStorageImpl()];
    for (const Parameter* const other : before) {
      if (other->tensor.is_same(one.tensor)) continue;
      if (kind == Aliases::one_storage || have_common_elements(other->tensor, one.tensor))
        return std::pair(other->name, one.name);
    }
    before.push_back(&one);
  }
  return {};
}

std::vector<at::Tensor> ModelParts::all() const {
  std::vector<at::Tensor> tensors;
  for (const auto* part : {&dense, &sparse, &frozen, &buffers}) {
    for (const Parameter& parameter : *part) tensors.push_back(parameter.tensor);
  }
  return tensors;
}

std::vector<std::string> ModelParts::description() const {
  std::vector<std::string> lines;
  for (const Parameter& each : dense) lines.push_back(line_of("parameter", each));
  for (const Parameter& each : sparse) lines.push_back(line_of("sparse parameter", each));
  for (const Parameter& each : frozen) lines.push_back(line_of("frozen parameter", each));
  for (const Parameter& each : buffers) lines.push_back(line_of("buffer", each));
  return lines;
}

ModelParts parts_of(const torch::nn::Module& model, const std::vector<std::string>& sparse) {
  Sorting sorting(sparse, sparse_weights(model));
  for (const auto& item : model.named_parameters()) sorting.parameter(item.key(), item.value());
  for (const auto& item : model.named_buffers()) sorting.buffer(item.key(), item.value());
  ModelParts parts = std::move(sorting).finish();
  parts.units = units_of(model);
  parts.modules = modules_of(model);
  return parts;
}

ModelParts parts_of(const std::vector<Parameter>& parameters,
                    const std::vector<std::string>& sparse) {
  Sorting sorting(sparse, {});
  for (const Parameter& each : parameters) sorting.parameter(each.name, each.tensor);
  return std::move(sorting).finish();
}

void ModelParts::look_again() {
  const std::vector<Parameter> named = trained_and_frozen();
  std::vector<std::string> sparse_names;
  for (const Parameter& parameter : sparse) sparse_names.push_back(parameter.name);
  ModelParts now = parts_of(named, sparse_names);
  for (Parameter& each : now.dense)
    for (const Parameter& before : named)
      if (each.tensor.is_same(before.tensor)) each.computed = before.computed;
  dense = std::move(now.dense);
  sparse = std::move(now.sparse);
  frozen = std::move(now.frozen);
}

std::vector<at::Tensor> tensors_of(std::span<const Parameter> parameters) {
  std::vector<at::Tensor> tensors;
  for (const Parameter& parameter : parameters) tensors.push_back(parameter.tensor);
  return tensors;
}

bool is_among(const std::vector<Parameter>& parameters, const at::Tensor& tensor) {
  return std::ranges::any_of(parameters,
                             [&](const Parameter& one) { return one.tensor.is_same(tensor); });
}

}  // namespace paceline::replica
