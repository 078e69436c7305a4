#include "paceline/torch/shard/unit_memory.h"

#include <malloc.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "paceline/torch/bridge/bridge.h"

namespace paceline::opened {

struct StorageThrows {
  using Type = bool c10::StorageImpl::*;
  friend Type member(StorageThrows);
};
template struct Member<StorageThrows, &c10::StorageImpl::throw_on_immutable_data_ptr_>;

}  // namespace paceline::opened

namespace paceline::shard {
namespace {

void drop(void* owner) {
  delete static_cast<std::shared_ptr<Allocation>*>(owner);
}

at::DataPtr data_of(const std::shared_ptr<Allocation>& memory) {
  return {memory->data(), new std::shared_ptr<Allocation>(memory), &drop, c10::kCPU};
}

at::DataPtr no_data() {
  return {nullptr, c10::kCPU};
}

// Code that reads parameters past libtorch's operators would take an empty storage for the values:
// torch::save would write a file that nobody can read.
std::string text_on_absent(const Unit& unit, const std::vector<replica::Parameter>& dense,
                           bool stays_whole) {
  const auto first = static_cast<std::size_t>(unit.parameters.gradients.front());
  const std::string which =
      c10::str("parameter '", dense[first].name, "'",
               unit.parameters.gradients.size() > 1 ? ", or another one of its unit," : "");
  if (stays_whole) {
    return c10::str(which,
                    " was read while other ranks' updates of it had not come (zero_stage 1 and 2), "
                    "after synchronize() and the optimizer's own step: call step(optimizer) in "
                    "their place, which waits for them; or to save the model, parallel.save(file) "
                    "on all ranks; or hold it with `const auto whole = parallel.gathered();`");
  }
  return c10::str(which,
                  " was read while it lies on other ranks (zero_stage 3): to save the model, all "
                  "ranks call parallel.save(file), or parallel.state(); to read it past libtorch's "
                  "operators, as torch::save() and data_ptr() do, hold it whole with `const auto "
                  "whole = parallel.gathered();`");
}

// `is_absent`: whoever asks for the memory is told so.
void set_absent(const c10::Storage& storage, bool is_absent) {
  storage.unsafeGetStorageImpl()->*member(opened::StorageThrows{}) = is_absent;
}

void give_own_memory(at::Tensor& tensor) noexcept {
  try {
    const at::Tensor own = tensor.detach().clone();
    tensor.set_(own.storage(), 0, own.sizes(), own.strides());
  } catch (const std::exception&) {
    tensor.set_();
  }
}

}  // namespace

UnitMemory::UnitMemory(const Units& units, const replica::ModelParts& parts, Communicator& group,
                       bool stays_whole)
    : units_(units),
      group_(group),
      stays_whole_(stays_whole),
      pool_(group),
      whole_(units.size()),
      pieces_(units.size()) {
  const at::NoGradGuard no_grad;
  for (const replica::Parameter& one : parts.dense) parameters_.push_back(one.tensor);
  versions_.resize(parameters_.size());
  fingerprints_.resize(parameters_.size());
  for (std::size_t u = 0; u < units_.size(); ++u) {
    storages_.emplace_back(c10::Storage::use_byte_size_t(), std::size_t{0}, no_data());
    storages_[u].unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(
        text_on_absent(units_[u], parts.dense, stays_whole_));
    move_in(u);
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) make_leaf(i);
#ifdef __GLIBC__
  ::malloc_trim(0);  // what the parameters lay in before goes back to the system
#endif
}

void UnitMemory::move_in(std::size_t unit) {
  const Unit& of = units_[unit];
  fill(unit);
  std::memset(whole_[unit]->data(), 0, of.bytes);
  for (std::size_t k = 0; k < of.offsets.size(); ++k) {
    at::Tensor& parameter = parameters_[static_cast<std::size_t>(of.parameters.gradients[k])];
    const at::Tensor old = parameter.detach().alias();
    const auto element = static_cast<std::size_t>(parameter.element_size());
    const auto sizes = parameter.sizes().vec(),
               strides = at::empty_like(old, at::kMeta).strides().vec();
    parameter.set_(storages_[unit], static_cast<std::int64_t>(of.offsets[k] / element), sizes,
                   strides);
    parameter.copy_(old);
  }
  note_versions(unit);
  if (stays_whole_) return;
  pieces_[unit] = std::make_shared<Allocation>(group_.allocate(units_.piece_bytes(unit)));
  const std::size_t bytes = units_.piece_bytes(unit);
  std::memcpy(pieces_[unit]->data(),
              whole_[unit]->data() + bytes * static_cast<std::size_t>(group_.rank()), bytes);
  empty(unit);
}

void UnitMemory::make_leaf(std::size_t parameter) {
  const Segment segment = units_.segment(parameter, group_.rank());
  if (segment.bytes == 0) return;
  const at::Tensor& whole = parameters_[parameter];
  const at::Tensor shape =
      at::empty({static_cast<std::int64_t>(segment.bytes) / whole.element_size()},
                whole.options().device(at::kMeta).requires_grad(false));
  // Its storage is not the unit's, so that an optimizer's step is no use of the unit.
  const auto& owner = stays_whole_ ? whole_[segment.unit] : pieces_[segment.unit];
  at::Tensor leaf = tensor_over(piece_start(segment.unit) + segment.begin, shape, owner);
  leaves_.push_back({segment, leaf.set_requires_grad(true)});
}

UnitMemory::~UnitMemory() {
  const at::NoGradGuard no_grad;
  for (Leaf& leaf : leaves_) take_out(leaf);
  leaves_.clear();
  pieces_.clear();
  for (std::size_t u = 0; u < units_.size(); ++u)
    if (is_whole(u)) take_out(u);
}

// An optimizer may hold leaves, and a program parameters, for longer than the job's memory lives.
// Where there is no memory for them, they stay without.
void UnitMemory::take_out(Leaf& leaf) {
  leaf.tensor.mutable_grad().reset();
  if (leaf.tensor.use_count() > 1) give_own_memory(leaf.tensor);
}

void UnitMemory::take_out(std::size_t unit) {
  show(unit);
  for (const int index : units_[unit].parameters.gradients)
    give_own_memory(parameters_[static_cast<std::size_t>(index)]);
  set_absent(storages_[unit], true);
  storages_[unit].unsafeGetStorageImpl()->set_data_ptr_noswap(no_data());
  storages_[unit].set_nbytes(0);
  whole_[unit].reset();
}

void UnitMemory::fill(std::size_t unit) {
  whole_[unit] = pool_.take(units_[unit].bytes);
  set_absent(storages_[unit], false);
  storages_[unit].unsafeGetStorageImpl()->set_data_ptr_noswap(data_of(whole_[unit]));
  storages_[unit].set_nbytes(units_[unit].bytes);
  note_versions(unit);
}

void UnitMemory::note_versions(std::size_t unit) {
  for (const int index : units_[unit].parameters.gradients) {
    const auto i = static_cast<std::size_t>(index);
    versions_[i] = parameters_[i]._version();
  }
}

bool UnitMemory::was_written(std::size_t parameter) const {
  return parameters_[parameter]._version() != versions_[parameter];
}

void UnitMemory::take_writes(std::size_t unit) {
  if (stays_whole_) return;
  const at::DisableRecordFunctionGuard unseen;  // it is no use of the unit
  for (const int index : units_[unit].parameters.gradients) {
    const auto i = static_cast<std::size_t>(index);
    if (was_written(i)) fingerprints_[i] = fingerprint_of(parameters_[i]);
  }
  note_versions(unit);
  const std::size_t bytes = units_.piece_bytes(unit);
  std::memcpy(pieces_[unit]->data(),
              whole_[unit]->data() + bytes * static_cast<std::size_t>(group_.rank()), bytes);
}

std::vector<std::uint64_t> UnitMemory::take_fingerprints() {
  return std::exchange(fingerprints_, std::vector<std::uint64_t>(parameters_.size()));
}

int UnitMemory::moved_parameter() const {
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const auto* const now =
        parameters_[i].unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
    if (now != storages_[units_.unit_of(i)].unsafeGetStorageImpl()) return static_cast<int>(i);
  }
  return -1;
}

void UnitMemory::empty(std::size_t unit) {
  const auto& members = units_[unit].parameters.gradients;
  if (!stays_whole_ && std::ranges::any_of(members, [this](int index) {
        return was_written(static_cast<std::size_t>(index));
      }))
    take_writes(unit);
  set_absent(storages_[unit], true);
  storages_[unit].unsafeGetStorageImpl()->set_data_ptr_noswap(no_data());
  storages_[unit].set_nbytes(0);
  pool_.give_back(std::move(whole_[unit]), units_[unit].bytes);
  whole_[unit].reset();
}

std::byte* UnitMemory::piece_start(std::size_t unit) const {
  if (!stays_whole_) return pieces_[unit]->data();
  return whole_[unit]->data() + units_.piece_bytes(unit) * static_cast<std::size_t>(group_.rank());
}

Buffer UnitMemory::whole(std::size_t unit) const {
  const Dtype dtype = units_[unit].parameters.dtype;
  return {whole_[unit]->data(), units_[unit].bytes / size_of(dtype), dtype};
}

ConstBuffer UnitMemory::piece(std::size_t unit) const {
  const Dtype dtype = units_[unit].parameters.dtype;
  return {piece_start(unit), units_.piece_bytes(unit) / size_of(dtype), dtype};
}

std::vector<std::shared_ptr<const void>> UnitMemory::owners(std::size_t unit) const {
  return {whole_[unit], pieces_[unit]};
}

void UnitMemory::hide(std::size_t unit) {
  set_absent(storages_[unit], true);
}

void UnitMemory::show(std::size_t unit) {
  set_absent(storages_[unit], false);
}

void UnitMemory::poison(std::size_t unit) {
  const Buffer all = whole(unit);
  const auto options = at::TensorOptions(scalar_type_of(all.dtype));
  tensor_over(static_cast<std::byte*>(all.data),
              at::empty({static_cast<std::int64_t>(all.count)}, options.device(at::kMeta)),
              whole_[unit])
      .fill_(std::numeric_limits<double>::quiet_NaN());
}

std::size_t UnitMemory::piece_bytes() const {
  std::size_t bytes = 0;
  for (const auto& piece : pieces_) bytes += piece ? piece->size() : 0;
  return bytes;
}

}  // namespace paceline::shard
