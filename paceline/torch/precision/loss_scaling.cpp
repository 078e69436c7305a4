#include "paceline/torch/precision/loss_scaling.h"

#include <torch/torch.h>

#include <span>
#include <vector>

#include "paceline/core/base/base.h"
#include "paceline/torch/bridge/bridge.h"

namespace paceline::precision {

bool LossScale::unscale(const std::vector<at::Tensor>& leaves) const {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& leaf : leaves) {
    const at::Tensor& grad = leaf.grad();
    if (grad.defined()) gradients.push_back(grad.is_sparse() ? grad._values() : grad);
  }
  if (gradients.empty()) return true;
  const at::TensorOptions beside_gradients(gradients.front().device());
  at::Tensor found = at::zeros({1}, beside_gradients);
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found,
                                                 at::full({1}, 1 / scale_, beside_gradients));
  return found.item<float>() == 0;
}

LossScaling::LossScaling(const PrecisionChoice& choice, DeviceMesh* mesh) : mesh_(mesh) {
  if (choice.has_scaler()) scale_.emplace(choice.scale, choice.interval, choice.floor);
}

// Flags stand between messages of gradients in an order that may differ from rank to rank, so they
// have a group of their own.
void LossScaling::bind(Communicator& group) {
  Communicator& all = mesh_ != nullptr ? mesh_->world() : group;
  mesh_ = nullptr;  // a later group stands for itself
  is_unscaled_ = false;
  everyone_.reset();
  if (scale_ && all.size() > 1) everyone_ = all.split(0);
}

at::Tensor LossScaling::scaled(const at::Tensor& loss) const {
  return scale_ ? loss * scale_->scale() : loss;
}

bool LossScaling::unscale(const std::vector<at::Tensor>& leaves, bool was_scaled) {
  require_scaled();
  is_unscaled_ = true;
  if (!scale_) return true;
  const bool are_finite = scale_->unscale(leaves);
  return is_finite_everywhere(was_scaled && are_finite);
}

bool LossScaling::is_finite_everywhere(bool is_finite_here) {
  if (everyone_ == nullptr) return is_finite_here;
  std::uint8_t overflows = is_finite_here ? 0 : 1;
  everyone_->all_reduce(buffer_of(std::span(&overflows, 1)), {.op = ReduceOp::max}).wait();
  return overflows == 0;
}

void LossScaling::ended(bool has_updated) {
  is_unscaled_ = false;
  if (scale_) scale_->update(!has_updated);
}

JsonReader::Json LossScaling::state() const {
  return scale_ ? scale_->state() : JsonReader::Json::object();
}

void LossScaling::restore(const JsonReader::Json& state) {
  is_unscaled_ = false;
  if (scale_) scale_->restore(state);
}

std::unique_ptr<replica::MixedPrecision> make_mixed_precision(const PrecisionChoice& choice,
                                                              DeviceMesh* mesh) {
  if (choice.mode != Mode::o2 && !choice.has_scaler()) return nullptr;
  return std::make_unique<LossScaling>(choice, mesh);
}

}  // namespace paceline::precision
