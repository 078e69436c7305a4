#include <torch/torch.h>

#include "paceline/torch/checkpoint/saved_item.h"

namespace paceline::checkpointing {
namespace {

constexpr const char* kStepTensor = "step";

}  // namespace

ItemState rank_step_state(std::int64_t step) {
  return {.tensors = {{kStepTensor, at::full({1}, step, at::kLong), Held::by_each}}};
}

std::int64_t saved_rank_step(const SavedItem& saved) {
  const at::Tensor step = at::zeros({1}, at::kLong);
  saved.read_into(saved.require(kStepTensor, Held::by_each, step), step);
  return step.item<std::int64_t>();
}

}  // namespace paceline::checkpointing
