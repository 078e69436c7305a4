#include "paceline/torch/tensor/column_product.h"

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

#include <cstdint>

#include "paceline/core/base/base.h"

namespace paceline::tensor {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Within an autocast scope libtorch would choose a type in the forward pass alone.
at::ScalarType type_of_product(const at::Tensor& input) {
  const bool is_cast =
      at::autocast::is_autocast_enabled(at::kCPU) && input.scalar_type() != at::kDouble;
  return is_cast ? at::autocast::get_autocast_dtype(at::kCPU) : input.scalar_type();
}

class ColumnProduct : public torch::autograd::Function<ColumnProduct> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                            const c10::intrusive_ptr<SharedGradient>& shared) {
    const at::ScalarType type = type_of_product(input);
    const at::Tensor factor = input.to(type), columns = weight.to(type);
    context->save_for_backward({factor, columns});
    context->saved_data["type"] = static_cast<std::int64_t>(input.scalar_type());
    context->saved_data["shared"] = c10::IValue::make_capsule(shared);
    context->saved_data["bias"] = bias.has_value();
    if (input.requires_grad()) shared->add_reader();
    return at::linear(factor, columns, bias ? std::optional(bias->to(type)) : std::nullopt);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (at::GradMode::is_enabled())
      throw_misuse("layers that are split among ranks do not support create_graph");
    const auto saved = context->get_saved_variables();
    const at::Tensor &input = saved[0], &weight = saved[1];
    const at::Tensor outgoing = gradients[0].reshape({-1, weight.size(0)});
    at::Tensor of_input, of_weight, of_bias;
    if (context->needs_input_grad(0)) {
      const auto shared = c10::static_intrusive_pointer_cast<SharedGradient>(
          context->saved_data["shared"].toCapsule());
      const auto type = static_cast<at::ScalarType>(context->saved_data["type"].toInt());
      of_input = shared->add(outgoing.mm(weight).view(input.sizes()).to(type));
    }
    if (context->needs_input_grad(1))
      of_weight = outgoing.t().mm(input.reshape({-1, weight.size(1)}));
    if (context->saved_data["bias"].toBool() && context->needs_input_grad(2))
      of_bias = outgoing.sum(0);
    return {of_input, of_weight, of_bias, {}};
  }
};

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char* kSumsOfGradients = "adds up the gradient of its input";

class Enter : public torch::autograd::Function<Enter> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& activation,
                            const LayerPlacePtr& place,
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

at::Tensor column_product(const at::Tensor& activation, const at::Tensor& weight,
                          const at::Tensor& bias, const LayerPlacePtr& place) {
  if (place->region->size() == 1) return at::linear(activation, weight, bias);
  const SharedInput& input = shared_input(activation, place);
  return ColumnProduct::apply(input.whole, weight,
                              bias.defined() ? std::optional(bias) : std::nullopt, input.gradient);
}

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

const SharedInput& shared_input(const at::Tensor& activation, const LayerPlacePtr& place) {
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
