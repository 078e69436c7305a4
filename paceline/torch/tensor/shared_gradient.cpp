#include "paceline/torch/tensor/shared_gradient.h"

#include <torch/torch.h>

#include "paceline/core/base/base.h"

namespace paceline::tensor {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kSumsOfGradients = "adds up the gradient of its input";

class Enter : public torch::autograd::Function<Enter> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& activation,
                            const PlacePtr& place,
                            const c10::intrusive_ptr<SharedGradient>& gradient) {
    context->set_materialize_grads(false);
    context->saved_data["gradient"] = c10::IValue::make_capsule(gradient);
    return place->region->is_sequence_parallel ? gathered_sequence(activation, *place)
                                               : activation.view_as(activation);
  }
  // The readers have added already what autograd brings.
  static variable_list backward(AutogradContext* context, const variable_list&) {
    const auto gradient = c10::static_intrusive_pointer_cast<SharedGradient>(
        context->saved_data["gradient"].toCapsule());
    return {gradient->finish(), {}, {}};
  }
};

bool is_same(const SharedInput& input, const at::Tensor& activation) {
  return input.activation.lock().get() == activation.unsafeGetTensorImpl() &&
         input.version == activation._version() &&
         input.with_gradient == (at::GradMode::is_enabled() && activation.requires_grad());
}

}  // namespace

at::Tensor SharedGradient::add(const at::Tensor& part) {
  gradient_ = gradient_.defined() ? gradient_.add_(part) : part;
  if (++arrived_ < readers_) return {};
  sum_ = begin_sum(gradient_, *place_);
  return gradient_;
}

at::Tensor SharedGradient::finish() {
  place_->region->last_input.reset();
  if (!gradient_.defined()) return {};
  if (!sum_) sum_ = begin_sum(gradient_, *place_);
  place_->wait(kSumsOfGradients, sum_->work);
  const at::Tensor outcome = sum_->outcome;
  sum_.reset();
  gradient_.reset();
  arrived_ = 0;
  return outcome;
}

const SharedInput& shared_input(const at::Tensor& activation, const PlacePtr& place) {
  Region& region = *place->region;
  if (region.last_input && is_same(*region.last_input, activation)) return *region.last_input;
  region.last_input.reset();
  auto gradient = c10::make_intrusive<SharedGradient>(place);
  const at::Tensor whole = Enter::apply(activation, place, gradient);
  region.last_input = std::make_shared<const SharedInput>(SharedInput{
      c10::weak_intrusive_ptr<at::TensorImpl>(activation.getIntrusivePtr()), activation._version(),
      at::GradMode::is_enabled() && activation.requires_grad(), whole, std::move(gradient)});
  return *region.last_input;
}

}  // namespace paceline::tensor
