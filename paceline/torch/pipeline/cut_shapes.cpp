#include "paceline/torch/pipeline/cut_shapes.h"

#include <torch/torch.h>

#include <array>

#include "paceline/torch/bridge/bridge.h"

namespace paceline::pipeline {
namespace {

constexpr std::size_t kMostTensors = 32, kMostDimensions = 16;
constexpr std::size_t kNumbersOfOne = 2 + kMostDimensions;
using Header = std::array<std::int64_t, 1 + kMostTensors * kNumbersOfOne>;

Header header_of(const std::vector<TensorShape>& shapes) {
  Header header = {};
  header[0] = static_cast<std::int64_t>(shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    std::int64_t* one = &header[1 + i * kNumbersOfOne];
    *one++ = static_cast<std::int64_t>(shapes[i].type);
    *one++ = static_cast<std::int64_t>(shapes[i].sizes.size());
    for (const std::int64_t size : shapes[i].sizes) *one++ = size;
  }
  return header;
}

Header header_of(const Tensors& tensors) {
  if (tensors.empty() || tensors.size() > kMostTensors) {
    throw_misuse(c10::str("a stage of a pipeline hands ", tensors.size(),
                          " tensors to the next one: 1 to ", kMostTensors, " can cross a cut"));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    if (!tensor.defined() || static_cast<std::size_t>(tensor.dim()) > kMostDimensions ||
        !dtype_of(tensor.scalar_type())) {
      throw_misuse(c10::str("tensor ", i, " that a stage of a pipeline hands to the next one is ",
                            tensor.defined() ? describe(tensor) : "undefined",
                            ", which cannot cross a cut: at most ", kMostDimensions,
                            " dimensions, of a real type"));
    }
  }
  return header_of(pipeline::shapes_of(tensors));
}

std::vector<TensorShape> shapes_of(const Header& header) {
  std::vector<TensorShape> shapes(static_cast<std::size_t>(header[0]));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::int64_t* one = &header[1 + i * kNumbersOfOne];
    shapes[i].type = static_cast<at::ScalarType>(*one++);
    const std::int64_t dimensions = *one++;
    shapes[i].sizes.assign(one, one + dimensions);
  }
  return shapes;
}

}  // namespace

std::vector<TensorShape> shapes_of(const Tensors& tensors) {
  std::vector<TensorShape> shapes;
  for (const at::Tensor& one : tensors) shapes.push_back({one.scalar_type(), one.sizes().vec()});
  return shapes;
}

at::Tensor tensor_of(const TensorShape& shape) {
  return at::empty(shape.sizes, at::TensorOptions().dtype(shape.type));
}

void send_with_shapes(Communicator& group, const Tensors& tensors, int to) {
  Header header = header_of(tensors);
  group.send(const_buffer_of(header), to, {.tag = 0}).wait();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor flat = tensors[i].detach().contiguous();
    group.send(buffer_of(flat), to, {.tag = static_cast<std::uint32_t>(1 + i)}).wait();
  }
}

Tensors receive_with_shapes(Communicator& group, int from) {
  Header header = {};
  group.recv(buffer_of(header), from, {.tag = 0}).wait();
  Tensors tensors;
  for (const TensorShape& shape : shapes_of(header)) tensors.push_back(tensor_of(shape));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    group.recv(buffer_of(tensors[i]), from, {.tag = static_cast<std::uint32_t>(1 + i)}).wait();
  }
  return tensors;
}

void broadcast_shapes(Communicator& group, CutShapes& shapes) {
  std::vector<std::int64_t> count = {static_cast<std::int64_t>(shapes.size())};
  group.broadcast(buffer_of(count)).wait();
  auto own = shapes.begin();
  CutShapes told;
  for (std::int64_t i = 0; i < count[0]; ++i) {
    std::vector<std::int64_t> place(2);
    Header header = {};
    if (group.rank() == 0) {
      place = {own->first.first, own->first.second};
      header = header_of(own->second);
      ++own;
    }
    group.broadcast(buffer_of(place)).wait();
    group.broadcast(buffer_of(header)).wait();
    told[{static_cast<int>(place[0]), place[1]}] = shapes_of(header);
  }
  shapes = std::move(told);
}

void broadcast_with_shape(Communicator& group, at::Tensor& tensor, int root) {
  const bool is_root = group.rank() == root;
  Header header = {};
  if (is_root) header = header_of({tensor});
  group.broadcast(buffer_of(header), root).wait();
  tensor = is_root ? tensor.detach().contiguous() : tensor_of(shapes_of(header).front());
  group.broadcast(buffer_of(tensor), root).wait();
}

}  // namespace paceline::pipeline
