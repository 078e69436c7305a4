#include "paceline/torch/checkpoint/held_tensor.h"

#include <torch/torch.h>

#include "paceline/torch/replica/replica.h"

namespace paceline::checkpointing {
namespace {

// All replicas have the same part: those of the first save it.
HeldPart part_of(const parallel::Placements& placements, const at::Tensor& parameter,
                 bool is_of_first_replica) {
  const parallel::Placement& placement = *placements.find(parameter);
  const auto whole = placements.whole_shape(parameter);
  HeldPart part{.whole = {whole.begin(), whole.end()},
                .offset = checkpoint::Extents(whole.size(), 0),
                .is_saved_here = is_of_first_replica && placement.is_first_copy};
  part.offset[static_cast<std::size_t>(placement.dimension)] =
      static_cast<std::uint64_t>(placement.begin);
  return part;
}

}  // namespace

ItemTensor held_tensor(const std::vector<DataParallel*>& parallels, const std::string& name,
                       const at::Tensor& parameter, const at::Tensor& tensor) {
  ItemTensor one{name, tensor};
  for (DataParallel* const each : parallels) {
    const parallel::Replicas& replicas = each->replicas();
    if (replicas.may_differ(parameter)) one.held = Held::by_each;
    const parallel::Placements& placements = replicas.parts().placements;
    if (placements.is_whole(parameter)) continue;
    one.held = Held::in_parts;
    one.part = part_of(placements, parameter, replicas.group().rank() == 0);
  }
  return one;
}

}  // namespace paceline::checkpointing
