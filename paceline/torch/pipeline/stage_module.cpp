#include "paceline/torch/pipeline/stage_module.h"

#include <torch/utils.h>

#include <algorithm>
#include <functional>
#include <typeinfo>
#include <utility>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/pipeline/layers.h"
#include "paceline/torch/pipeline/recompute/recompute.h"

namespace paceline::pipeline {
namespace {

// Modules between the dots of a layer's name have nothing but children.
struct Between : torch::nn::Module {};

void place(torch::nn::Module& root, const std::string& name,
           const std::shared_ptr<torch::nn::Module>& module) {
  torch::nn::Module* parent = &root;
  std::size_t begin = 0;
  for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', begin)) {
    const std::string part = name.substr(begin, dot - begin);
    const auto children = parent->named_children();
    const auto* const next = children.find(part);
    parent = next != nullptr ? next->get()
                             : parent->register_module(part, std::make_shared<Between>()).get();
    begin = dot + 1;
  }
  parent->register_module(name.substr(begin), module);
}

[[noreturn]] void throw_no_clone(const std::string& layer, const torch::nn::Module& module,
                                 const std::string& why) {
  throw_misuse(c10::str(
      "layer '", layer, "' is a ", module.name(), ", of which a pipeline without a flush keeps ",
      "clones, one for each version of the weights, and it cannot be cloned (", why,
      "): derive its class from torch::nn::Cloneable and register parameters, buffers and "
      "submodules in reset(), or choose schedule \"1f1b\", which keeps one version"));
}

std::unique_ptr<PipelineLayer> clone_of(const PipelineLayer& layer, const std::string& name) {
  std::unique_ptr<PipelineLayer> clone;
  try {
    clone = layer.clone();
  } catch (const c10::Error& error) {
    throw_no_clone(name, *layer.module(), error.what_without_backtrace());
  } catch (const Error& error) {
    throw_no_clone(name, *layer.module(), error.failure().what);
  }
  // A class that derives from a Cloneable one would be cut down to it.
  const auto modules = layer.module()->modules();
  const auto copies = clone ? clone->module()->modules() : decltype(modules){};
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const torch::nn::Module& module = *modules[i];
    if (i < copies.size() && typeid(*copies[i]) == typeid(module)) continue;
    throw_no_clone(name, module, "its clone() makes an object of another class");
  }
  return clone;
}

// Layers of libtorch whose operators make the two gradients apart. A derived class may do more.
bool has_two_parts(const torch::nn::Module& module) {
  const std::type_info& type = typeid(module);
  return type == typeid(torch::nn::LinearImpl) || type == typeid(torch::nn::EmbeddingImpl) ||
         type == typeid(torch::nn::Conv2dImpl);
}

}  // namespace

StageModule::StageModule(const Layers& layers, int first, int last) : first_(first) {
  for (int layer = first; layer <= last; ++layer) {
    names_.push_back(layers.name(layer));
    layers_.push_back(layers.make(layer));
    place(*this, names_.back(), layers_.back()->module());
  }
}

StageModule::StageModule(int first, std::vector<std::string> names,
                         std::vector<std::unique_ptr<PipelineLayer>> layers)
    : first_(first), names_(std::move(names)), layers_(std::move(layers)) {
  for (std::size_t i = 0; i < layers_.size(); ++i) place(*this, names_[i], layers_[i]->module());
}

std::shared_ptr<StageModule> StageModule::copy() const {
  const DrawingFrom drawing(0);  // reset() draws values that are overwritten
  std::vector<std::unique_ptr<PipelineLayer>> layers;
  for (std::size_t i = 0; i < layers_.size(); ++i)
    layers.push_back(clone_of(*layers_[i], names_[i]));
  std::shared_ptr<StageModule> copy(new StageModule(first_, names_, std::move(layers)));
  const auto parameters = this->parameters(), copied = copy->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    copied[i].set_requires_grad(parameters[i].requires_grad());
    if (!parameters[i].requires_grad()) copied[i].set_data(parameters[i]);
    for (std::size_t k = 0; k < i; ++k)  // a tensor that has two names here has them there
      if (parameters[k].is_same(parameters[i])) copied[i].set_data(copied[k]);
  }
  const auto buffers = this->buffers(), copied_buffers = copy->buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i) copied_buffers[i].set_data(buffers[i]);
  return copy;
}

std::unique_ptr<PipelineLayer> StageModule::copy_of(int layer) const {
  const DrawingFrom drawing(0);
  const auto at = static_cast<std::size_t>(layer - first_);
  return clone_of(*layers_[at], names_[at]);
}

Tensors StageModule::forward_of(std::size_t layer, const Tensors& inputs) {
  const std::string& name = names_[layer];
  const auto module = layers_[layer]->module();
  if (!has_two_parts(*module)) return layers_[layer]->forward(inputs, name);
  const auto run = [&](const at::Tensor& input) {
    return layers_[layer]->forward({input}, name).front();
  };
  return {in_two_parts(run, only_tensor(inputs, name), module->parameters())};
}

Tensors StageModule::run(Tensors tensors, std::size_t first, std::size_t end) {
  for (std::size_t i = first; i < end; ++i) {
    const auto forward = [&](const Tensors& inputs) { return forward_of(i, inputs); };
    tensors = watch_ != nullptr ? watch_->run(first_ + static_cast<int>(i), tensors, forward)
                                : forward(tensors);
  }
  return tensors;
}

Tensors StageModule::forward(Tensors inputs) {
  return run(std::move(inputs), 0, layers_.size());
}

Tensors StageModule::forward(Tensors inputs, int recompute_every) {
  if (recompute_every == 0) return forward(std::move(inputs));
  const auto length = static_cast<std::size_t>(recompute_every);
  for (std::size_t first = 0; first < layers_.size(); first += length) {
    const std::size_t end = std::min(first + length, layers_.size());
    const std::function<Tensors(const Tensors&)> segment =
        [this, first, end](const Tensors& given) { return run(given, first, end); };
    inputs = recompute(segment, inputs);
  }
  return inputs;
}

const torch::nn::Module& StageModule::layer(int layer) const {
  return *layers_[static_cast<std::size_t>(layer - first_)]->module();
}

}  // namespace paceline::pipeline
