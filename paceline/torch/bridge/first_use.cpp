#include "paceline/torch/bridge/first_use.h"

#include <ATen/record_function.h>
#include <torch/torch.h>

#include <algorithm>
#include <utility>

namespace paceline {
namespace {

// libtorch's callbacks carry no state of their own, so all share one.
struct Watching {
  std::vector<FirstUse*> all;
  at::CallbackHandle handle = 0;
};
thread_local Watching watching;

const void* storage_of(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

}  // namespace

struct FirstUseCallback {
  static std::unique_ptr<at::ObserverContext> on_operator(const at::RecordFunction& function) {
    for (const c10::IValue& input : function.inputs()) {
      if (input.isTensor()) {
        tell(input.toTensor());
      } else if (input.isTensorList()) {
        for (const at::Tensor& tensor : input.toTensorVector()) tell(tensor);
      }
    }
    return nullptr;
  }

  static void tell(const at::Tensor& tensor) {
    for (FirstUse* one : watching.all) one->look_at(tensor);
  }
};

FirstUse::FirstUse(const std::vector<at::Tensor>& tensors, Seen seen)
    : was_seen_(tensors.size()), seen_(std::move(seen)) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    places_.emplace(tensors[i].unsafeGetTensorImpl(), i);
    if (tensors[i].has_storage()) places_.emplace(storage_of(tensors[i]), i);
  }
  if (watching.all.empty()) {
    watching.handle =
        at::addThreadLocalCallback(at::RecordFunctionCallback(&FirstUseCallback::on_operator)
                                       .needsInputs(true)
                                       .scopes({at::RecordScope::FUNCTION}));
  }
  watching.all.push_back(this);
}

FirstUse::~FirstUse() {
  std::erase(watching.all, this);
  if (watching.all.empty()) at::removeCallback(watching.handle);
}

void FirstUse::look_at(const at::Tensor& tensor) {
  look_for(tensor.unsafeGetTensorImpl());
  if (tensor.has_storage()) look_for(storage_of(tensor));
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

}  // namespace paceline
