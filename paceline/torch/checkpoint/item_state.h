// The content of one item of a checkpoint on this rank, as views of the live tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "paceline/core/base/json_reader.h"

namespace paceline::checkpointing {

enum class Held : std::uint8_t {
  by_all,    // alike on all ranks: one of them saves it
  by_each,   // each rank has its own
  by_first,  // rank 0's counts
};

struct ItemTensor {
  std::string name;
  at::Tensor tensor;
  Held held = Held::by_all;
};

struct ItemState {
  JsonReader::Json values = JsonReader::Json::object();  // rank 0's count
  std::vector<ItemTensor> tensors;
};

}  // namespace paceline::checkpointing
