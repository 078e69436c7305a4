#include "paceline/torch/parallel/whole_state.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "paceline/core/collective/group/values.h"

namespace paceline::parallel {

WholeState::WholeState(Replicas& replicas) : replicas_(replicas), held_(replicas.held_whole()) {
  const at::NoGradGuard no_grad;
  const ModelParts& parts = replicas.parts();
  const bool has_masters = !replicas.masters().empty();
  const auto add = [&](const Parameter& each) {
    at::Tensor value = each.tensor.detach();
    if (!parts.placements.is_whole(each.tensor))
      value = parts.placements.gathered(each.tensor, value);
    // Frozen parameters and buffers have no masters, and o2 turned them into 16 bits too.
    if (has_masters && value.is_floating_point() && value.element_size() == 2)
      value = value.to(at::kFloat);
    tensors_.push_back({each.name, each.leaf(), std::move(value)});
  };
  for (const Parameter& each : parts.trained_and_frozen()) add(each);
  for (const Parameter& each : parts.buffers) add(each);
}

at::Tensor WholeState::value_of(const at::Tensor& tensor) const {
  const auto found = std::ranges::find_if(
      tensors_, [&](const WholeTensor& one) { return one.tensor.is_same(tensor); });
  return found == tensors_.end() ? at::Tensor() : found->value;
}

bool WholeState::is_first_rank() const {
  const Communicator* const layers = replicas_.parts().placements.group();
  return replicas_.group().rank() == 0 && (layers == nullptr || layers->rank() == 0);
}

std::string WholeState::told_by_first_rank(std::string text) const {
  if (Communicator* const layers = replicas_.parts().placements.group())
    text = broadcast_bytes(*layers, text);
  return broadcast_bytes(replicas_.calls(), text);
}

}  // namespace paceline::parallel
