#include "paceline/torch/replica/parts/placement.h"

#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "paceline/torch/bridge/bridge.h"

namespace paceline::replica {

// libtorch lets a tensor have a name, and gives it none itself.
void mark_part(const Placement& placement) {
  const std::int64_t end = placement.begin + placement.tensor.size(placement.dimension);
  torch::autograd::impl::set_name(
      placement.tensor,
      c10::str(placement.begin, " to ", end, " of ", placement.whole, " along dimension ",
               placement.dimension, ", which parallelize() split"));
}

std::string mark_of(const at::Tensor& tensor) {
  const std::string& name = tensor.name();
  return name.ends_with("parallelize() split") ? name : std::string();
}

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

std::vector<std::int64_t> Placements::whole_shape(const at::Tensor& parameter) const {
  auto shape = parameter.sizes().vec();
  if (!is_whole(parameter)) {
    const Placement& placement = *find(parameter);
    shape[static_cast<std::size_t>(placement.dimension)] = placement.whole;
  }
  return shape;
}

at::Tensor Placements::gathered(const at::Tensor& parameter, const at::Tensor& part) const {
  if (is_whole(parameter)) return part.clone();
  return gathered_rows(parameter, part, 0, whole_shape(parameter)[0]);
}

at::Tensor Placements::gathered_rows(const at::Tensor& parameter, const at::Tensor& part,
                                     std::int64_t begin, std::int64_t rows) const {
  if (is_whole(parameter)) return part.narrow(0, begin, rows).clone();
  const Placement& placement = *find(parameter);
  auto shape = whole_shape(parameter);
  shape[0] = rows;
  const at::Tensor whole = at::zeros(shape, part.options());
  if (placement.is_first_copy && placement.dimension == 0) {
    const std::int64_t first = std::max(begin, placement.begin);
    const std::int64_t end = std::min(begin + rows, placement.begin + part.size(0));
    if (first < end) {
      whole.narrow(0, first - begin, end - first)
          .copy_(part.narrow(0, first - placement.begin, end - first));
    }
  } else if (placement.is_first_copy) {
    whole.narrow(placement.dimension, placement.begin, part.size(placement.dimension))
        .copy_(part.narrow(0, begin, rows));
  }
  group_->all_reduce(buffer_of(whole)).wait();
  return whole;
}

}  // namespace paceline::replica
