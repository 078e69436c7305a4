// How this rank holds a tensor of a model that a DataParallel trains.
#pragma once

#include <string>
#include <vector>

#include "paceline/torch/checkpointing/saved_item.h"
#include "paceline/torch/parallel/parallel.h"

namespace paceline::checkpointing {

// See HowHeld. A tensor that none of `parallels` trains is alike on all ranks. THROWS Error
// (misuse): a parameter that ranks divide does not lie row after row in memory.
std::vector<ItemTensor> held_tensor(const std::vector<DataParallel*>& parallels,
                                    const std::string& name, const at::Tensor& parameter,
                                    const at::Tensor& tensor);

}  // namespace paceline::checkpointing
