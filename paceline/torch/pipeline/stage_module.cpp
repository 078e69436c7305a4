#include "paceline/torch/pipeline/stage_module.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "paceline/torch/pipeline/recompute.h"

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

}  // namespace

StageModule::StageModule(const Layers& layers, int first, int last) : first_(first) {
  for (int layer = first; layer <= last; ++layer) {
    names_.push_back(layers.name(layer));
    layers_.push_back(layers.make(layer));
    place(*this, names_.back(), layers_.back()->module());
  }
}

Tensors StageModule::run(Tensors tensors, std::size_t first, std::size_t end) {
  for (std::size_t i = first; i < end; ++i) tensors = layers_[i]->forward(tensors, names_[i]);
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
