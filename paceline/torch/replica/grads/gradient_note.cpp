#include "paceline/torch/replica/grads/gradient_note.h"

#include <c10/core/TensorImpl.h>

#include <utility>

namespace paceline::parallel {
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

}  // namespace paceline::parallel
