#include "models.h"

#include "resnet18.h"

namespace nn = torch::nn;

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names = {"linear", "mlp", "cnn", "resnet18"};
  return names;
}

double default_learning_rate(const std::string& name) {
  return name == "cnn" || name == "resnet18" ? 0.1 : 0.05;
}

torch::nn::Sequential make_model(const std::string& name, std::uint64_t seed, at::ScalarType type) {
  torch::manual_seed(seed);
  nn::Sequential model;
  if (name == "linear") {
    model = nn::Sequential(nn::Flatten(), nn::Linear(784, 10));
  } else if (name == "mlp") {
    model = nn::Sequential(nn::Flatten(), nn::Linear(784, 1024), nn::ReLU(), nn::Linear(1024, 1024),
                           nn::ReLU(), nn::Linear(1024, 10));
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
