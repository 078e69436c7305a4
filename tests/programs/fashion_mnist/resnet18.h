// ResNet-18 (He et al., 2016, table 1) for small images: a 3x3 convolution with stride 1 instead of
// the 7x7 one and no pooling at the start, as is usual for images of about 32x32.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace resnet18 {

inline torch::nn::Conv2d convolution(std::int64_t in, std::int64_t out, std::int64_t size,
                                     std::int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, size).stride(stride).padding(size / 2).bias(false));
}

struct BlockImpl : torch::nn::Cloneable<BlockImpl> {
  BlockImpl(std::int64_t in_channels, std::int64_t out_channels, std::int64_t stride_of_first)
      : in(in_channels), out(out_channels), stride(stride_of_first) {
    BlockImpl::reset();
  }
  void reset() override {
    using torch::nn::BatchNorm2d;
    body = torch::nn::Sequential(convolution(in, out, 3, stride), BatchNorm2d(out),
                                 torch::nn::ReLU(), convolution(out, out, 3, 1), BatchNorm2d(out));
    register_module("body", body);
    if (stride == 1 && in == out) return;
    shortcut = torch::nn::Sequential(convolution(in, out, 1, stride), BatchNorm2d(out));
    register_module("shortcut", shortcut);
  }
  at::Tensor forward(const at::Tensor& x) {
    return at::relu(body->forward(x) + (shortcut ? shortcut->forward(x) : x));
  }

  std::int64_t in, out, stride;
  torch::nn::Sequential body{nullptr};
  torch::nn::Sequential shortcut{nullptr};  // none where the shapes agree
};
TORCH_MODULE(Block);

// Hands `add` the functions that make the layers, in their order: 1x28x28 -> 10 classes, 11.2
// million parameters.
template <typename Add>
void add_layers(const Add& add) {
  using namespace torch::nn;
  std::int64_t channels = 64;
  add([] { return convolution(1, 64, 3, 1); });
  add([] { return BatchNorm2d(64); });
  add([] { return ReLU(); });
  for (const std::int64_t out : {64, 128, 256, 512}) {
    add([in = channels, out] { return Block(in, out, out == 64 ? 1 : 2); });
    add([out] { return Block(out, out, 1); });
    channels = out;
  }
  add([] { return AdaptiveAvgPool2d(1); });
  add([] { return Flatten(); });
  add([channels] { return Linear(channels, 10); });
}

}  // namespace resnet18
