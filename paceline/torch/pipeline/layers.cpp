#include "paceline/torch/pipeline/layers.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>

#include "paceline/core/base/base.h"
#include "paceline/core/base/seed.h"

namespace paceline {

Layers::Layers(torch::nn::Sequential model) {
  const auto names = model->named_children().keys();
  auto name = names.begin();
  for (auto& any : *model) {
    layers_.push_back({*name++, [any] { return std::make_unique<pipeline::AnyLayer>(any); }});
  }
}

Layers& Layers::add_layer(const std::string& name, Make make) {
  const auto is_same = [&](const Layer& other) { return other.name == name; };
  if (name.empty() || std::ranges::any_of(layers_, is_same)) {
    throw Error({Fault::misuse,
                 "Layers::add(\"" + name + "\"): " +
                     (name.empty() ? "a layer must have a name"
                                   : "there is a layer of this name already: give each its own")});
  }
  layers_.push_back({name, std::move(make)});
  return *this;
}

std::unique_ptr<pipeline::PipelineLayer> Layers::make(int layer) const {
  const pipeline::DrawingFrom drawing(mix(seed_, static_cast<std::uint64_t>(layer)));
  return at(layer).make();
}

}  // namespace paceline

namespace paceline::pipeline {
namespace {

std::mutex& mutex() {
  static std::mutex only;  // as the generator is
  return only;
}

}  // namespace

DrawingFrom::DrawingFrom(std::uint64_t seed)
    : lock_(mutex()), generator_(at::detail::getDefaultCPUGenerator()) {
  const std::lock_guard guard(generator_.mutex());
  before_ = generator_.get_state();
  generator_.set_current_seed(seed);
}

DrawingFrom::~DrawingFrom() {
  const std::lock_guard guard(generator_.mutex());
  generator_.set_state(before_);
}

}  // namespace paceline::pipeline
