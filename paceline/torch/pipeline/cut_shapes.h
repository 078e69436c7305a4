// The shapes of the tensors that cross the cuts of a pipeline, which all of its ranks know after
// one small forward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/pipeline/pipeline_layer.h"

namespace paceline::pipeline {

struct TensorShape {
  at::ScalarType type = at::kFloat;
  std::vector<std::int64_t> sizes = {};
  bool operator==(const TensorShape&) const = default;
};
std::vector<TensorShape> shapes_of(const Tensors& tensors);
// Gradients cross a cut, the other way, for what has them: every tensor of a floating type.
inline bool crosses_back(const at::Tensor& tensor) {
  return at::isFloatingType(tensor.scalar_type());
}
// Memory of this shape, of any content, at a multiple of 64 bytes.
at::Tensor tensor_of(const TensorShape& shape);

// Sends tensors with their shapes, and receives them. At most 32 tensors of at most 16 dimensions.
// They use the tags 0 and 1 + i of the group. Both block. THROWS Error: misuse, other tensors; what
// ended the communication.
void send_with_shapes(Communicator& group, const Tensors& tensors, int to);
Tensors receive_with_shapes(Communicator& group, int from);
// All ranks end with the tensor of rank `root`. Collective.
void broadcast_with_shape(Communicator& group, at::Tensor& tensor, int root);

// The shapes that enter a stage, by the stage and the number of samples.
using CutShapes = std::map<std::pair<int, std::int64_t>, std::vector<TensorShape>>;
// All ranks end with those of rank 0. Collective.
void broadcast_shapes(Communicator& group, CutShapes& shapes);

}  // namespace paceline::pipeline
