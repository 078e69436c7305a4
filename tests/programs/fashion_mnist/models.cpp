#include "models.h"

#include <functional>
#include <map>
#include <utility>

#include "resnet18.h"

namespace nn = torch::nn;

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = {"linear",   "mlp",  "cnn",
                                                 "resnet18", "wide", "deep"};
  return names;
}

double default_learning_rate(const std::string& name) {
  return name == "resnet18" ? 0.1 : 0.05;
}

static const std::vector<std::int64_t>& widths_of(const std::string& name) {
  static const std::map<std::string, std::vector<std::int64_t>> widths = {
      {"linear", {784, 10}},
      {"mlp", {784, 1024, 1024, 10}},
      {"wide", {784, 8192, 8192, 10}},
      {"deep",
       {784, 2048, 2048, 2048, 2048, 2048, 2048, 2048, 2048, 2048, 2048, 2048, 2048, 2048, 2048,
        2048, 2048, 2048, 10}}};
  static const std::vector<std::int64_t> none;
  const auto found = widths.find(name);
  return found == widths.end() ? none : found->second;
}

// Linear layers of these widths, with ReLU between them.
template <typename Linear, typename Add>
static void add_widths(const std::vector<std::int64_t>& widths, const Add& add) {
  add([] { return nn::Flatten(); });
  for (std::size_t i = 1; i < widths.size(); ++i) {
    if (i > 1) add([] { return nn::ReLU(); });
    add([in = widths[i - 1], out = widths[i]] { return Linear(in, out); });
  }
}

// The convolutions do most of the work, and the layer after them has most parameters: the model
// computes much for each byte that it sends.
template <typename Linear, typename Add>
static void add_cnn(const Add& add) {
  add([] { return nn::Conv2d(nn::Conv2dOptions(1, 32, 5).stride(2).padding(2)); });
  add([] { return nn::ReLU(); });
  add([] { return nn::Conv2d(nn::Conv2dOptions(32, 64, 3).padding(1)); });
  add([] { return nn::ReLU(); });
  add([] { return nn::MaxPool2d(2); });
  add([] { return nn::Flatten(); });
  add([] { return Linear(64 * 7 * 7, 64); });
  add([] { return nn::ReLU(); });
  add([] { return Linear(64, 10); });
}

// Hands `add` the functions that make the layers of a network, in their order.
template <typename Linear, typename Add>
static void add_layers_of(const std::string& name, const Add& add) {
  if (const auto& widths = widths_of(name); !widths.empty()) add_widths<Linear>(widths, add);
  else if (name == "resnet18") resnet18::add_layers(add);
  else add_cnn<Linear>(add);
}

torch::nn::Sequential make_model(const std::string& name, std::uint64_t seed, at::ScalarType type) {
  torch::manual_seed(seed);
  std::vector<std::function<nn::AnyModule()>> makes;
  add_layers_of<nn::Linear>(name, [&](const auto& make) {
    makes.emplace_back([make] { return nn::AnyModule(make()); });
  });
  // The cnn's layers draw their values from the last to the first one, as in all figures of it.
  std::vector<nn::AnyModule> layers(makes.size());
  for (std::size_t i = 0; i < makes.size(); ++i) {
    const std::size_t layer = name == "cnn" ? makes.size() - 1 - i : i;
    layers[layer] = makes[layer]();
  }
  nn::Sequential model;
  for (nn::AnyModule& layer : layers) model->push_back(std::move(layer));
  model->to(type);
  return model;
}

paceline::Layers make_layers(const std::string& name, std::uint64_t seed, at::ScalarType type) {
  paceline::Layers layers(seed);
  add_layers_of<paceline::Linear>(name, [&](const auto& make) {
    layers.add(std::to_string(layers.size()), [make, type] {
      auto layer = make();
      layer->to(type);
      return layer;
    });
  });
  return layers;
}

// Layers stand at 1, 3, ... Each pair of them needs one exchange; an odd one at the end is small.
paceline::TensorPlan plan_of(const std::string& name) {
  using enum paceline::ParallelStyle;
  paceline::TensorPlan plan;
  const std::size_t layers = widths_of(name).empty() ? 0 : widths_of(name).size() - 1;
  for (std::size_t i = 0; i + 1 < layers; i += 2) {
    plan.push_back({std::to_string(2 * i + 1), column});
    plan.push_back({std::to_string(2 * i + 3), row});
  }
  return plan;
}
