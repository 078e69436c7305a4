#include "paceline/torch/replica/parts/parameter_writes.h"

#include <algorithm>

#include "paceline/core/base/base.h"

namespace paceline::replica {

ParameterWrites::ParameterWrites(const std::vector<Parameter>& parameters) {
  for (const Parameter& one : parameters) {
    tensors_.push_back(one.leaf());
    names_.push_back(one.name);
  }
  note();
}

ParameterWrites::State ParameterWrites::state_of(const at::Tensor& tensor) {
  const auto* const impl = tensor.unsafeGetTensorImpl();
  return {static_cast<std::uint32_t>(tensor._version()),
          impl->unsafe_storage().unsafeGetStorageImpl()};
}

void ParameterWrites::note() {
  looks_away_ = false;
  noted_.clear();
  for (const at::Tensor& tensor : tensors_) noted_.push_back(state_of(tensor));
}

std::uint64_t ParameterWrites::stamp() const {
  std::uint64_t stamp = 0;
  for (const at::Tensor& tensor : tensors_) {
    const State state = state_of(tensor);
    stamp = mix(mix(stamp, state.version), reinterpret_cast<std::uintptr_t>(state.storage));
  }
  return stamp;
}

std::vector<std::size_t> ParameterWrites::written() const {
  std::vector<std::size_t> written;
  if (looks_away_) return written;
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (state_of(tensors_[i]) != noted_[i]) written.push_back(i);
  return written;
}

bool ParameterWrites::any() const {
  return !written().empty();
}

const ParameterPiece* ParameterPieces::find(std::size_t parameter) const {
  const auto found = std::ranges::lower_bound(own, parameter, {}, &ParameterPiece::parameter);
  return found == own.end() || found->parameter != parameter ? nullptr : &*found;
}

}  // namespace paceline::replica
