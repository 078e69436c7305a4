// Layers: a model as a list of layers by name, each with a function that makes it, so that a rank
// of a pipeline makes those of its own stages alone.
//
//   paceline::Layers layers;
//   layers.add("embedding", [&] { return Embedding(config); });
//   for (int i = 0; i < config.blocks; ++i)
//     layers.add("blocks." + std::to_string(i), [&] { return Block(config); });
//   layers.add("head", [&] { return Head(config); });
//
// Layer i draws its initial values from (seed, i), so that they do not depend on where the model is
// cut.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <torch/nn/modules/container/sequential.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "paceline/torch/pipeline/pipeline_layer.h"

namespace paceline {

class Layers {
 public:
  using Make = std::function<std::unique_ptr<pipeline::PipelineLayer>()>;

  explicit Layers(std::uint64_t seed = 0) : seed_(seed) {}
  // The elements of a model that is there already: each rank has all of it until its stages are
  // made. They are named by their place or as they were named, and keep their values.
  Layers(torch::nn::Sequential model);

  // `make` returns a module in its holder (TORCH_MODULE) or in a std::shared_ptr. Its forward takes
  // a tensor, or a std::vector of tensors, and returns the like. Parameters of the layer are named
  // "<name>.<parameter>"; dots in the name stand between modules. THROWS Error (misuse): the name
  // is empty, or there.
  template <typename MakeModule>
  Layers& add(const std::string& name, MakeModule make) {
    return add_layer(name, [make = std::move(make)] {
      return std::make_unique<pipeline::HeldLayer<decltype(make())>>(make());
    });
  }

  // Both parameters are one, by their names in the whole model ("embedding.weight",
  // "head.weight"): the second one has the values of the first, and each has the sum of both
  // gradients, also where they stand on different stages.
  Layers& tie(std::string first, std::string second) {
    ties_.emplace_back(std::move(first), std::move(second));
    return *this;
  }
  const std::vector<std::pair<std::string, std::string>>& ties() const { return ties_; }

  int size() const { return static_cast<int>(layers_.size()); }
  const std::string& name(int layer) const { return at(layer).name; }
  // Makes the layer. The default generator is as it was afterwards. THREAD: any; one at a time of a
  // process draws from the generator.
  std::unique_ptr<pipeline::PipelineLayer> make(int layer) const;

 private:
  struct Layer {
    std::string name;
    Make make;
  };
  Layers& add_layer(const std::string& name, Make make);
  const Layer& at(int layer) const { return layers_[static_cast<std::size_t>(layer)]; }

  std::uint64_t seed_ = 0;
  std::vector<Layer> layers_;
  std::vector<std::pair<std::string, std::string>> ties_;
};

}  // namespace paceline

namespace paceline::pipeline {

// DrawingFrom: while it lives, the process's generator draws from a seed of its own. Afterwards it
// is as it was, so that what layers draw when they are made changes no other draw.
//
// THREAD: any; one of a process lives at a time, and another one waits for it.
class DrawingFrom {
 public:
  explicit DrawingFrom(std::uint64_t seed);
  ~DrawingFrom();
  DrawingFrom(const DrawingFrom&) = delete;
  DrawingFrom& operator=(const DrawingFrom&) = delete;

 private:
  std::lock_guard<std::mutex> lock_;
  at::Generator generator_;
  at::Tensor before_;
};

}  // namespace paceline::pipeline
