#include "paceline/torch/replica/placement.h"

#include <torch/torch.h>

#include <utility>

#include "paceline/torch/bridge/bridge.h"

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

at::Tensor Placements::gathered(const at::Tensor& parameter, const at::Tensor& part) const {
  if (is_whole(parameter)) return part.clone();
  const Placement& placement = *find(parameter);
  auto shape = part.sizes().vec();
  shape[static_cast<std::size_t>(placement.dimension)] = placement.whole;
  const at::Tensor whole = at::zeros(shape, part.options());
  if (placement.is_first_copy) {
    whole.narrow(placement.dimension, placement.begin, part.size(placement.dimension)).copy_(part);
  }
  group_->all_reduce(buffer_of(whole)).wait();
  return whole;
}

}  // namespace paceline::parallel
