#include "paceline/torch/replica/placement.h"

#include <torch/torch.h>

#include <utility>

namespace paceline::parallel {

Placements::Placements(std::vector<Placement> placements, Communicator& group) : group_(&group) {
  for (Placement& placement : placements) {
    const void* const key = placement.tensor.unsafeGetTensorImpl();
    by_tensor_.emplace(key, std::move(placement));
  }
}

const Placement* Placements::find(const at::Tensor& parameter) const {
  const auto found = by_tensor_.find(parameter.unsafeGetTensorImpl());
  return found == by_tensor_.end() ? nullptr : &found->second;
}

bool Placements::is_whole(const at::Tensor& parameter) const {
  const Placement* const placement = find(parameter);
  return placement == nullptr || placement->dimension < 0;
}

bool Placements::is_counted(const at::Tensor& parameter) const {
  if (group_ == nullptr) return true;
  if (is_whole(parameter)) return group_->rank() == 0;
  return find(parameter)->is_first_copy;
}

}  // namespace paceline::parallel
