#include "paceline/torch/bridge/first_use.h"

#include <ATen/record_function.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "paceline/torch/bridge/gradient_hook.h"

namespace paceline {
namespace {

// libtorch's callbacks carry no state of their own, so all share one.
struct Watching {
  std::vector<OperatorWatch*> all;
  at::CallbackHandle handle = 0;
};
thread_local Watching watching;

const void* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

}  // namespace

struct OperatorCallback {
  static std::unique_ptr<at::ObserverContext> on_operator(const at::RecordFunction& function) {
    for (OperatorWatch* one : watching.all) one->begins(function.name());
    OperatorWatch::Argument argument{function, 0};
    for (const c10::IValue& input : function.inputs()) {
      if (input.isTensor()) {
        tell(input.toTensor(), argument);
      } else if (input.isTensorList()) {
        for (const at::Tensor& tensor : input.toTensorVector()) tell(tensor, argument);
      }
      ++argument.index;
    }
    for (OperatorWatch* one : watching.all) one->looked_at_all();
    return nullptr;
  }

  static void tell(const at::Tensor& tensor, const OperatorWatch::Argument& argument) {
    for (OperatorWatch* one : watching.all) one->look_at(tensor, argument);
  }
};

bool OperatorWatch::Argument::is_written() const {
  const auto schema = function.operator_schema();
  if (!schema || index >= schema->arguments().size()) return false;
  const c10::AliasInfo* const alias = schema->arguments()[index].alias_info();
  return alias != nullptr && alias->isWrite();
}

OperatorWatch::OperatorWatch() {
  if (watching.all.empty()) {
    watching.handle =
        at::addThreadLocalCallback(at::RecordFunctionCallback(&OperatorCallback::on_operator)
                                       .needsInputs(true)
                                       .scopes({at::RecordScope::FUNCTION}));
  }
  watching.all.push_back(this);
}

OperatorWatch::~OperatorWatch() {
  std::erase(watching.all, this);
  if (watching.all.empty()) at::removeCallback(watching.handle);
}

FirstUse::FirstUse(const std::vector<at::Tensor>& tensors, Seen seen)
    : was_seen_(tensors.size()), seen_(std::move(seen)) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    places_.emplace(tensors[i].unsafeGetTensorImpl(), i);
    if (tensors[i].has_storage()) places_.emplace(storage_of(tensors[i]), i);
  }
}

void FirstUse::look_at(const at::Tensor& input, const Argument&) {
  look_for(input.unsafeGetTensorImpl());
  if (input.has_storage()) look_for(storage_of(input));
}

void FirstUse::look_for(const void* tensor_or_storage) {
  const auto [first, last] = places_.equal_range(tensor_or_storage);
  if (first == last) return;
  std::vector<std::size_t> found;
  for (auto each = first; each != last; ++each) found.push_back(each->second);
  places_.erase(first, last);
  const at::DisableRecordFunctionGuard no_record;
  for (const std::size_t place : found) {
    if (was_seen_[place]) continue;
    was_seen_[place] = true;
    seen_(place);
  }
}

StorageUses::StorageUses(const std::vector<c10::Storage>& storages, Used used)
    : used_(std::move(used)) {
  for (std::size_t i = 0; i < storages.size(); ++i)
    places_.emplace(storages[i].unsafeGetStorageImpl(), i);
}

void StorageUses::look_at(const at::Tensor& input, const Argument&) {
  if (!input.has_storage()) return;
  const auto found = places_.find(storage_of(input));
  if (found != places_.end() && std::ranges::find(found_, found->second) == found_.end())
    found_.push_back(found->second);
}

void StorageUses::looked_at_all() {
  if (found_.empty()) return;
  const auto found = std::exchange(found_, {});
  const at::DisableRecordFunctionGuard no_record;
  used_(found);
}

TensorWrites::TensorWrites(const std::vector<at::Tensor>& tensors, Written written)
    : written_(std::move(written)) {
  for (std::size_t i = 0; i < tensors.size(); ++i) places_.emplace(storage_of(tensors[i]), i);
}

void TensorWrites::look_at(const at::Tensor& input, const Argument& argument) {
  if (!input.has_storage()) return;
  const auto found = places_.find(storage_of(input));
  if (found == places_.end() || !argument.is_written()) return;
  const at::DisableRecordFunctionGuard no_record;
  written_(found->second);
}

ScalingByNorm::ScalingByNorm(const std::vector<c10::Storage>& storages) {
  for (const c10::Storage& one : storages) {
    storages_.insert(one.unsafeGetStorageImpl());
    addresses_.push_back(one.getWeakStorageImpl());
  }
}

void ScalingByNorm::begins(const char* operation) {
  const std::string_view name = operation;
  has_storage_ = has_factor_ = false;
  operation_ = Operation::other;
  if (current_backward() >= 0) return;
  if (name == "aten::norm" || name == "aten::linalg_vector_norm" || name == "aten::abs")
    operation_ = Operation::norm;
  if (name == "aten::mul_" || name == "aten::div_") operation_ = Operation::multiplication;
}

void ScalingByNorm::look_at(const at::Tensor& input, const Argument&) {
  if (operation_ == Operation::other || !input.has_storage()) return;
  if (storages_.contains(storage_of(input))) has_storage_ = true;
  else has_factor_ |= !input.unsafeGetTensorImpl()->is_wrapped_number();
}

void ScalingByNorm::looked_at_all() {
  if (!has_storage_) return;
  took_norm_ |= operation_ == Operation::norm;
  was_seen_ |= took_norm_ && operation_ == Operation::multiplication && has_factor_;
}

}  // namespace paceline
