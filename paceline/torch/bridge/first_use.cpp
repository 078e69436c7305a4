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

FirstUse::FirstUse(const std::vector<at::Tensor>& tensors, Seen seen) : seen_(std::move(seen)) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    places_.emplace(tensors[i].unsafeGetTensorImpl(), i);
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
  const auto found = places_.find(tensor.unsafeGetTensorImpl());
  if (found == places_.end()) return;
  const std::size_t place = found->second;
  places_.erase(found);
  const at::DisableRecordFunctionGuard no_record;
  seen_(place);
}

}  // namespace paceline
