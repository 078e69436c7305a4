#include "models.h"

#include <map>

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

// Linear layers of these widths, with ReLU between them.
static nn::Sequential layers_of(const std::vector<std::int64_t>& widths) {
  nn::Sequential model;
  model->push_back(nn::Flatten());
  for (std::size_t i = 1; i < widths.size(); ++i) {
    if (i > 1) model->push_back(nn::ReLU());
    model->push_back(nn::Linear(widths[i - 1], widths[i]));
  }
  return model;
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

torch::nn::Sequential make_model(const std::string& name, std::uint64_t seed, at::ScalarType type) {
  torch::manual_seed(seed);
  nn::Sequential model;
  if (const auto& widths = widths_of(name); !widths.empty()) {
    model = layers_of(widths);
  } else if (name == "resnet18") {
    model = make_resnet18();
  } else {
    // The convolutions do most of the work, and the layer after them has most parameters: the model
    // computes much for each byte that it sends.
    model = nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 32, 5).stride(2).padding(2)), nn::ReLU(),
                           nn::Conv2d(nn::Conv2dOptions(32, 64, 3).padding(1)), nn::ReLU(),
                           nn::MaxPool2d(2), nn::Flatten(), nn::Linear(64 * 7 * 7, 64), nn::ReLU(),
                           nn::Linear(64, 10));
  }
  model->to(type);
  return model;
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
