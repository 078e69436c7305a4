#include "paceline/torch/checkpointing/held_tensor.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/replica/replica.h"

namespace paceline::checkpointing {
namespace {

checkpoint::Extents extents_of(c10::IntArrayRef sizes) {
  return {sizes.begin(), sizes.end()};
}

// The part of a parameter that this rank's layers hold. `is_saved_here`: among the replicas.
HeldPart part_of(const replica::Placements& placements, const at::Tensor& parameter,
                 bool is_saved_here) {
  const auto whole = placements.whole_shape(parameter);
  HeldPart part{.whole = extents_of(whole),
                .offset = checkpoint::Extents(whole.size(), 0),
                .is_saved_here = is_saved_here && placements.is_counted(parameter)};
  if (placements.is_whole(parameter)) return part;
  const replica::Placement& placement = *placements.find(parameter);
  part.offset[static_cast<std::size_t>(placement.dimension)] =
      static_cast<std::uint64_t>(placement.begin);
  return part;
}

// A parameter that ranks divide, and this rank's piece of it.
struct Divided {
  at::Tensor parameter;
  const replica::ParameterPiece* piece = nullptr;  // null: this rank has none
};

// `tensor`: a piece, or the parameter.
std::optional<Divided> divided_of(const replica::Replicas& replicas, const at::Tensor& tensor) {
  const replica::ParameterPieces* const pieces = replicas.synchrony().pieces();
  if (pieces == nullptr) return std::nullopt;
  const std::vector<replica::Parameter>& dense = replicas.parts().dense;
  for (const replica::ParameterPiece& piece : pieces->own)
    if (piece.leaf.is_same(tensor)) return Divided{dense[piece.parameter].tensor, &piece};
  for (std::size_t i = 0; i < dense.size(); ++i)
    if (dense[i].tensor.is_same(tensor)) return Divided{tensor, pieces->find(i)};
  return std::nullopt;
}

// `values`: as long as the piece.
std::vector<ItemTensor> boxes_of(const Divided& divided, const HeldPart& part,
                                 const std::string& name, const at::Tensor& values) {
  const at::Tensor& parameter = divided.parameter;
  if (divided.piece == nullptr)
    return {{name, at::empty({0}, parameter.scalar_type()), Held::in_parts, part}};
  if (!parameter.is_contiguous()) {
    throw_misuse(c10::str("a checkpoint cannot hold the pieces of tensor '", name, "', ",
                          describe(parameter),
                          ", which does not lie row after row in memory: make it contiguous before "
                          "DataParallel is made, or train with zero_stage 0"));
  }
  const auto begin = static_cast<std::uint64_t>(divided.piece->begin);
  std::vector<ItemTensor> boxes;
  std::int64_t place = 0;
  for (const checkpoint::Box& box :
       checkpoint::boxes_of_range(extents_of(parameter.sizes()), begin,
                                  begin + static_cast<std::uint64_t>(values.numel()))) {
    const std::vector<std::int64_t> shape(box.shape.begin(), box.shape.end());
    const auto elements = static_cast<std::int64_t>(*checkpoint::elements_of(box.shape));
    HeldPart held = part;
    for (std::size_t d = 0; d < held.offset.size(); ++d) held.offset[d] += box.offset[d];
    boxes.push_back({name, values.narrow(0, place, elements).view(shape), Held::in_parts, held});
    place += elements;
  }
  return boxes;
}

}  // namespace

std::vector<ItemTensor> held_tensor(const std::vector<DataParallel*>& parallels,
                                    const std::string& name, const at::Tensor& parameter,
                                    const at::Tensor& tensor) {
  Held held = Held::by_all;
  HeldPart part;
  for (DataParallel* const each : parallels) {
    const replica::Replicas& replicas = each->replicas();
    const replica::Placements& placements = replicas.parts().placements;
    // No operator touches a divided parameter here: that would be a use of it.
    if (const auto divided = divided_of(replicas, parameter)) {
      const bool is_parameter = divided->parameter.is_same(parameter);
      const at::Tensor values =
          is_parameter && divided->piece != nullptr ? divided->piece->leaf.detach() : tensor;
      return boxes_of(*divided, part_of(placements, divided->parameter, true), name, values);
    }
    if (replicas.may_differ(parameter)) held = Held::by_each;
    if (placements.is_whole(parameter)) continue;
    held = Held::in_parts;
    part = part_of(placements, parameter, replicas.group().rank() == 0);
  }
  return {{name, tensor.detach(), held, part}};
}

}  // namespace paceline::checkpointing
