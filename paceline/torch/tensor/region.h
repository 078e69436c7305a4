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

struct SharedInput;  // column_product.h

struct ShardRange {
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
  std::vector<replica::Placement> placements = {};

  int size() const { return group->size(); }
  int rank() const { return group->rank(); }

  // Leaves this rank's range of `tensor` along dimension 0 or 1, of what rank 0 has in it. Every
  // rank calls it, with a range of its own. A tensor that several layers share is cut once. THROWS
  // Error (misuse): it was cut in another way.
  void keep_range(const at::Tensor& tensor, int dimension, const ShardRange& range,
                  bool is_first_copy = true);
};

// A layer's place in the model and in the region. Autograd's nodes keep it alive.
struct LayerPlace : torch::CustomClassHolder {
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
using LayerPlacePtr = c10::intrusive_ptr<LayerPlace>;

// The range that a rank holds of `length` elements that are split as evenly as they can be.
ShardRange range_of(std::int64_t length, int rank, int ranks);

}  // namespace paceline::tensor

namespace paceline {

// How a layer of a model is split among the ranks of the axis tp (docs/guide/tensor_parallel.md).
enum class ParallelStyle : std::uint8_t {
  column,  // Linear: each rank computes some of the outputs, which stay apart
  row,     // Linear behind column or heads: each rank has some of the inputs; outputs are summed
  heads,   // Linear that makes queries, keys or values: as column, by whole heads
  vocabulary,  // Embedding, or the Linear that makes logits: each rank has some of the words
  sequence,    // LayerNorm, Embedding of positions, Dropout: each rank has part of every sequence
  split,       // Linear: each rank computes some of the outputs, which all ranks then get
};
const char* name_of(ParallelStyle style);

namespace tensor {

// How a plan splits one layer.
struct Request {
  ParallelStyle style;
  std::int64_t head_size = 0;  // with the style heads
  std::int64_t words = 0;      // of a loss: the length of the vocabulary
  int ranks = 1;
};

class PlacedLayer {
 public:
  virtual ~PlacedLayer() = default;

  // Tells what is wrong with splitting this layer so, and what would be right; empty: nothing.
  virtual std::string objection(const Request& request) const = 0;
  // The number of ranks that hold one shard: 1, unless there are fewer heads than ranks.
  virtual int copies(const Request&) const { return 1; }
  // Keeps this rank's shards of the parameters. The tensors stay the same, with other memory.
  virtual void place(const Request& request, const LayerPlacePtr& place) = 0;
  // The place of a layer that was placed; null: it was not.
  virtual LayerPlacePtr place() const = 0;
};

}  // namespace tensor

}  // namespace paceline
