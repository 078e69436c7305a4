#include "paceline/torch/replica/grads/gradient_note.h"

#include <c10/core/TensorImpl.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <utility>

#include "paceline/core/base/base.h"

namespace paceline::replica {
namespace {

// libtorch keeps such a value with a tensor, and copies it to detached ones, whose gradients it
// does not tell of.
struct Note final : c10::BackendMeta {
  Note(const c10::TensorImpl* on, std::shared_ptr<NotedGradients> gradients, std::size_t place)
      : tensor(on), of(std::move(gradients)), parameter(place) {}
  const c10::TensorImpl* const tensor;
  const std::shared_ptr<NotedGradients> of;
  const std::size_t parameter;
};

// libtorch asks this key before all others. It has no use of its own for it: the key is for tensors
// of other libraries that have no elements yet.
constexpr c10::DispatchKey kKey = c10::DispatchKey::DeferredInit;

// It has the shape and type of the gradient, and no memory.
class ScopedValues final : public c10::TensorImpl {
 public:
  ScopedValues(GradientNote note, c10::IntArrayRef sizes, caffe2::TypeMeta type)
      : TensorImpl(c10::DispatchKeySet(kKey), type, c10::Device(c10::kCPU)),
        note_(std::move(note)) {
    set_sizes_contiguous(sizes);
  }

  // The parameter's place among those of its replicas, while there are some.
  const GradientNote& note() const { return note_; }

  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion&,
                                                         bool) const override {
    return c10::make_intrusive<ScopedValues>(note_, sizes(), dtype());
  }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                         bool changes) const override {
    return shallow_copy_and_detach(std::as_const(version), changes);
  }

 private:
  const char* tensorimpl_type_name() const override { return "Elsewhere"; }

  const GradientNote note_;
};

[[noreturn]] void refuse(const std::string& operation, const GradientOwner* owner,
                         std::size_t parameter) {
  if (owner == nullptr) {
    throw_misuse(
        c10::str(operation, " of a gradient whose DataParallel has ended: it is nowhere any more"));
  }
  throw_misuse(c10::str(
      operation, " of the gradient of '", owner->name_of(parameter),
      "', which lies elsewhere (masters of the precision o2), or in pieces on several ranks "
      "(zero_stage): the grads of parallel.parameters() are what this rank has of them. Norms and "
      "clipping by the 2-norm or another p-norm work here; parallel.clip_grad_norm(max_norm) clips "
      "all at once"));
}

std::vector<at::Tensor> grads_in(const GradientOwner& owner, std::size_t parameter) {
  std::vector<at::Tensor> grads;
  for (const at::Tensor& leaf : owner.leaves_of(parameter))
    if (leaf.grad().defined()) grads.push_back(leaf.grad());
  return grads;
}

// The note of the first such tensor among the arguments.
GradientNote note_among(c10::ArrayRef<c10::IValue> arguments) {
  for (const c10::IValue& one : arguments) {
    std::vector<at::Tensor> tensors;
    if (one.isTensor()) tensors.push_back(one.toTensor());
    else if (one.isTensorList()) tensors = one.toTensorVector();
    for (const at::Tensor& each : tensors)
      if (is_elsewhere(each))
        return static_cast<const ScopedValues*>(each.unsafeGetTensorImpl())->note();
  }
  return {};
}

// Takes the place of the operation's arguments by its result.
void answer(const c10::OperatorHandle& operation, torch::jit::Stack* stack, at::Tensor result) {
  torch::jit::drop(*stack, operation.schema().arguments().size());
  stack->emplace_back(std::move(result));
}

// Every operation that is given such a tensor comes here.
void run(const c10::OperatorHandle& operation, torch::jit::Stack* stack) {
  const at::NoGradGuard no_grad;
  const std::string name = operation.schema().name(), overload = operation.schema().overload_name();
  const auto arguments = torch::jit::last(*stack, operation.schema().arguments().size());
  const GradientNote note = note_among(arguments);
  const GradientOwner* const owner = note.owner();
  const std::size_t parameter = note.parameter;
  if (owner == nullptr || !arguments[0].isTensor() || !is_elsewhere(arguments[0].toTensor()))
    refuse(name, owner, parameter);
  const at::Tensor self = arguments[0].toTensor();
  if (name == "aten::norm" && overload == "Scalar") {
    const double norm = owner->norm_of(parameter, arguments[1].toScalar().toDouble());
    return answer(operation, stack, at::scalar_tensor(norm, at::kDouble));
  }
  if (name == "aten::mul_" || name == "aten::div_") {
    if (overload != "Tensor" && overload != "Scalar") refuse(name, owner, parameter);
    const c10::IValue factor = arguments[1];
    if (factor.isTensor() && factor.toTensor().numel() != 1) refuse(name, owner, parameter);
    for (at::Tensor& grad : grads_in(*owner, parameter)) {
      const at::Tensor by =
          factor.isTensor() ? factor.toTensor() : at::scalar_tensor(factor.toScalar(), at::kDouble);
      name == "aten::mul_" ? grad.mul_(by) : grad.div_(by);
    }
    return answer(operation, stack, self);
  }
  if (name == "aten::zero_") {
    for (at::Tensor& grad : grads_in(*owner, parameter)) grad.zero_();
    return answer(operation, stack, self);
  }
  if (name == "aten::detach" || name == "aten::detach_") return answer(operation, stack, self);
  refuse(name, owner, parameter);
}

TORCH_LIBRARY_IMPL(_, DeferredInit, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run>());
}

}  // namespace

void note_gradient(const at::Tensor& tensor, std::shared_ptr<NotedGradients> of,
                   std::size_t parameter) {
  c10::TensorImpl* const on = tensor.unsafeGetTensorImpl();
  on->set_backend_meta(c10::make_intrusive<Note>(on, std::move(of), parameter));
}

GradientNote note_on(const at::Tensor& tensor) {
  c10::TensorImpl* const on = tensor.unsafeGetTensorImpl();
  const auto* const note = dynamic_cast<const Note*>(on->get_backend_meta());
  if (note == nullptr || note->tensor != on) return {};
  return {note->of, note->parameter};
}

at::Tensor gradient_elsewhere(const at::Tensor& parameter) {
  GradientNote note = note_on(parameter);
  if (note.owner() == nullptr) return {};
  return at::detail::make_tensor<ScopedValues>(std::move(note), parameter.sizes(),
                                               parameter.dtype());
}

bool is_elsewhere(const at::Tensor& gradient) {
  return gradient.defined() && gradient.unsafeGetTensorImpl()->key_set().has(kKey);
}

void drop_if_elsewhere(const at::Tensor& parameter) {
  if (is_elsewhere(parameter.grad())) parameter.mutable_grad().reset();
}

}  // namespace paceline::replica
