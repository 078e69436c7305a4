#include "paceline/torch/checkpoint/saved_item.h"

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

}  // namespace

void refuse_item(const SavedItem& saved, const std::string& difference) {
  throw_misuse(c10::str("cannot resume from ", saved.place(), ": ", difference,
                        ". Resume with the program that saved it, or save into another directory"));
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
  const LogicalTensor* const saved = find(tensor, held);
  if (saved == nullptr)
    refuse_item(*this, c10::str("it has no tensor '", tensor, "', and this program has one"));
  if (saved->dtype != dtype_of(like.scalar_type()) || saved->shape != extents_of(like)) {
    refuse_item(*this, c10::str("its tensor '", tensor, "' is ", described(*saved),
                                ", and in this program it is ", describe(like)));
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
  const at::NoGradGuard no_grad;
  if (into.is_contiguous() && into.device().is_cpu()) {
    auto* const memory = static_cast<std::byte*>(into.mutable_data_ptr());
    reader_.read(tensor, {memory, into.nbytes()}).value();
    into.unsafeGetTensorImpl()->bump_version();
    return;
  }
  std::vector<std::byte> bytes = read_bytes(tensor);
  into.copy_(at::from_blob(bytes.data(), into.sizes(), into.scalar_type()));
}

}  // namespace paceline::checkpointing
