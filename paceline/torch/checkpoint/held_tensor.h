// How this rank holds a tensor of a model that a DataParallel trains.
#pragma once

#include <string>
#include <vector>

#include "paceline/torch/checkpoint/item_state.h"
#include "paceline/torch/parallel/parallel.h"

namespace paceline::checkpointing {

// `tensor` is the parameter or buffer itself, or as large as the part of it that this rank has. One
// that none of `parallels` trains is alike on all ranks.
ItemTensor held_tensor(const std::vector<DataParallel*>& parallels, const std::string& name,
                       const at::Tensor& parameter, const at::Tensor& tensor);

}  // namespace paceline::checkpointing
