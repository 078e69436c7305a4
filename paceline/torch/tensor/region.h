// Region: the ranks among which layers of a model are split.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/custom_class.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/replica/parts/placement.h"

namespace paceline::tensor {

struct SharedInput;  // shared_gradient.h

struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t length() const { return end - begin; }
};

// Shared by all layers that one call of parallelize() placed.
struct Region {
  Communicator* group = nullptr;  // outlives the layers
  // Between the layers that are split, each rank holds its part of every sequence (the last
  // dimension but one), in rank order.
  bool is_sequence_parallel = false;
  // The activation that the last layer read, for the next one that reads it too; null: none is
  // kept.
  std::shared_ptr<const SharedInput> last_input = {};
  // Those of all parameters that are split.
  std::vector<parallel::Placement> placements = {};

  int size() const { return group->size(); }
  int rank() const { return group->rank(); }

  // Leaves this rank's range of `tensor` along dimension 0 or 1, of what rank 0 has in it. Every
  // rank calls it, with a range of its own. A tensor that several layers share is cut once. THROWS
  // Error (misuse): it was cut in another way.
  void keep_range(const at::Tensor& tensor, int dimension, const Range& range,
                  bool is_first_copy = true);
};

// A layer's place in the model and in the region. Autograd's nodes keep it alive.
struct Place : torch::CustomClassHolder {
  std::shared_ptr<Region> region;
  std::string layer;  // its path in the model, for messages
  // The ranks that hold the same shard as this one, which share its gradient; null: no other does.
  std::shared_ptr<Communicator> copies = {};

  // Starts an operation, or waits for its end. `purpose` completes "while it ...". THROWS Error:
  // the failure, with the name of the layer.
  Work start(const char* purpose, const std::function<Work()>& call) const;
  void wait(const char* purpose, const Work& work) const;
  void run(const char* purpose, const std::function<Work()>& call) const;
};
using PlacePtr = c10::intrusive_ptr<Place>;

// The range that a rank holds of `length` elements that are split as evenly as they can be.
Range range_of(std::int64_t length, int rank, int ranks);

}  // namespace paceline::tensor
