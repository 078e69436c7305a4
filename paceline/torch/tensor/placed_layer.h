// PlacedLayer: a layer that can be split among ranks; and in which style it is.
#pragma once

#include <cstdint>
#include <string>

#include "paceline/torch/tensor/region.h"

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
  virtual void place(const Request& request, const PlacePtr& place) = 0;
  // The place of a layer that was placed; null: it was not.
  virtual PlacePtr place() const = 0;
};

}  // namespace tensor
}  // namespace paceline
