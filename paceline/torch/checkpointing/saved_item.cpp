#include "paceline/torch/checkpointing/saved_item.h"

#include <torch/torch.h>

#include <algorithm>
#include <set>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::checkpointing {
namespace {

using checkpoint::LogicalTensor;

checkpoint::Extents extents_of(const at::Tensor& tensor) {
  return {tensor.sizes().begin(), tensor.sizes().end()};
}

std::string described(const LogicalTensor& tensor) {
  const std::vector<std::int64_t> shape(tensor.shape.begin(), tensor.shape.end());
  return c10::str(name_of(tensor.dtype), c10::IntArrayRef(shape));
}

constexpr const char* kStepTensor = "step";

}  // namespace

void refuse_item(const SavedItem& saved, const std::string& difference) {
  throw_misuse(c10::str("cannot resume from ", saved.place(), ": ", difference,
                        ". Resume with the program that saved it, leave the item out by "
                        "CheckpointOptions{.ignore = {\"",
                        saved.name(), "\"}}, or save into another directory"));
}

std::string SavedItem::place() const {
  return c10::str(path_, ", item '", item_.name, "'");
}

const LogicalTensor* SavedItem::find_of(std::string_view tensor, int rank) const {
  const auto found = std::ranges::find_if(item_.tensors, [&](const LogicalTensor& one) {
    return one.name == tensor && one.rank == rank;
  });
  return found == item_.tensors.end() ? nullptr : &*found;
}

const LogicalTensor* SavedItem::find(std::string_view tensor, Held held) const {
  if (const LogicalTensor* common = find_of(tensor, -1)) return common;
  return find_of(tensor, held == Held::by_each ? rank_ % ranks() : 0);
}

std::vector<std::string> SavedItem::tensor_names() const {
  std::vector<std::string> names;
  std::set<std::string_view> seen;
  for (const LogicalTensor& tensor : item_.tensors)
    if (seen.insert(tensor.name).second) names.push_back(tensor.name);
  return names;
}

const LogicalTensor& SavedItem::require(std::string_view tensor, Held held,
                                        const at::Tensor& like) const {
  return require(tensor, held, like, extents_of(like));
}

const LogicalTensor& SavedItem::require(const ItemTensor& like) const {
  const bool is_part = like.held == Held::in_parts;
  return require(like.name, like.held, like.tensor,
                 is_part ? like.part.whole : extents_of(like.tensor));
}

const LogicalTensor& SavedItem::require(std::string_view tensor, Held held, const at::Tensor& like,
                                        const checkpoint::Extents& shape) const {
  const LogicalTensor* const saved = find(tensor, held);
  if (saved == nullptr)
    refuse_item(*this, c10::str("it has no tensor '", tensor, "', and this program has one"));
  if (saved->dtype != dtype_of(like.scalar_type()) || saved->shape != shape) {
    const LogicalTensor own{
        .name = {}, .dtype = dtype_of(like.scalar_type()).value(), .shape = shape};
    refuse_item(*this, c10::str("its tensor '", tensor, "' is ", described(*saved),
                                ", and in this program it is ", described(own)));
  }
  return *saved;
}

void SavedItem::require_no_other(const std::vector<std::string>& names) const {
  const std::set<std::string_view> known(names.begin(), names.end());
  for (const std::string& name : tensor_names())
    if (!known.contains(name))
      refuse_item(*this, c10::str("it has a tensor '", name, "', and this program has none"));
}

std::vector<std::byte> SavedItem::read_bytes(const LogicalTensor& tensor) const {
  return reader_.read(tensor).value();
}

void SavedItem::read_into(const LogicalTensor& tensor, const at::Tensor& into) const {
  read_box(tensor, {checkpoint::Extents(tensor.shape.size(), 0), tensor.shape}, into);
}

void SavedItem::read_into(const ItemTensor& one) const {
  const LogicalTensor& saved = *find(one.name, one.held);
  if (one.held != Held::in_parts) return read_into(saved, one.tensor);
  read_box(saved, {one.part.offset, extents_of(one.tensor)}, one.tensor);
}

void SavedItem::read_box(const LogicalTensor& tensor, const checkpoint::Box& box,
                         const at::Tensor& into) const {
  if (into.numel() == 0) return;
  const at::NoGradGuard no_grad;
  const bool is_direct = into.is_contiguous() && into.device().is_cpu();
  const at::Tensor memory = is_direct ? into : at::empty(into.sizes(), into.scalar_type());
  auto* const bytes = static_cast<std::byte*>(memory.mutable_data_ptr());
  reader_.read(tensor, box, {bytes, memory.nbytes()}).value();
  if (is_direct) into.unsafeGetTensorImpl()->bump_version();
  else into.copy_(memory);
}

ItemState rank_step_state(std::int64_t step) {
  return {.tensors = {{kStepTensor, at::full({1}, step, at::kLong), Held::by_each}}};
}

std::int64_t saved_rank_step(const SavedItem& saved) {
  const at::Tensor step = at::zeros({1}, at::kLong);
  saved.read_into(saved.require(kStepTensor, Held::by_each, step), step);
  return step.item<std::int64_t>();
}

}  // namespace paceline::checkpointing
