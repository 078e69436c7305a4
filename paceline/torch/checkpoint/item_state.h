// The content of one item of a checkpoint on this rank, as views of the live tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "paceline/core/base/json_reader.h"
#include "paceline/core/checkpoint/checkpoint.h"

namespace paceline::checkpointing {

enum class Held : std::uint8_t {
  by_all,    // alike on all ranks: one of them saves it
  by_each,   // each rank has its own
  by_first,  // rank 0's counts
  in_parts,  // ranks have parts of it
};

// This rank's part of a tensor that ranks have in parts.
struct HeldPart {
  checkpoint::Extents whole;   // the shape of the tensor
  checkpoint::Extents offset;  // of the part in it
  bool is_saved_here = true;   // of several ranks with the same part, one saves it
};

struct ItemTensor {
  std::string name;
  at::Tensor tensor;
  Held held = Held::by_all;
  HeldPart part = {};  // with in_parts
};

// How a tensor of an item is held on this rank: `tensor` itself belongs to `parameter`, such as its
// moments, or is the parameter, or a buffer. Where ranks divide parameters, `parameter` may be a
// piece of one, and `tensor` is as long; that may be several boxes, or an empty one.
using HowHeld = std::function<std::vector<ItemTensor>(
    const std::string& name, const at::Tensor& parameter, const at::Tensor& tensor)>;

struct ItemState {
  JsonReader::Json values = JsonReader::Json::object();  // rank 0's count
  std::vector<ItemTensor> tensors;
};

}  // namespace paceline::checkpointing
