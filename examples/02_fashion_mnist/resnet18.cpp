#include "resnet18.h"

namespace nn = torch::nn;

namespace {

nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t size, std::int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false));
}

struct BlockImpl : nn::Module {
  BlockImpl(std::int64_t in, std::int64_t out, std::int64_t stride)
      : body(convolution(in, out, 3, stride), nn::BatchNorm2d(out), nn::ReLU(),
             convolution(out, out, 3, 1), nn::BatchNorm2d(out)) {
    register_module("body", body);
    if (stride != 1 || in != out) {
      shortcut = nn::Sequential(convolution(in, out, 1, stride), nn::BatchNorm2d(out));
      register_module("shortcut", shortcut);
    }
  }
  at::Tensor forward(const at::Tensor& x) {
    return at::relu(body->forward(x) + (shortcut ? shortcut->forward(x) : x));
  }

  nn::Sequential body;
  nn::Sequential shortcut{nullptr};  // none where the shapes agree
};
TORCH_MODULE(Block);

}  // namespace

nn::Sequential make_resnet18() {
  std::int64_t channels = 64;
  nn::Sequential model(convolution(1, channels, 3, 1), nn::BatchNorm2d(channels), nn::ReLU());
  for (const std::int64_t out : {64, 128, 256, 512}) {
    model->push_back(Block(channels, out, out == 64 ? 1 : 2));
    model->push_back(Block(out, out, 1));
    channels = out;
  }
  model->push_back(nn::AdaptiveAvgPool2d(1));
  model->push_back(nn::Flatten());
  model->push_back(nn::Linear(channels, 10));
  return model;
}
