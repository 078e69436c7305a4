// LossScaling: what a training in 16 bits does in each step (replica/grads/mixed_precision.h tells
// when).
#pragma once

#include <memory>
#include <optional>

#include "paceline/core/mesh/mesh.h"
#include "paceline/torch/precision/choice.h"
#include "paceline/torch/precision/loss_scale.h"
#include "paceline/torch/replica/replica.h"

namespace paceline::precision {

class LossScaling final : public parallel::MixedPrecision {
 public:
  // `mesh`: whose ranks all decide together; null: those of the group. It outlives this.
  LossScaling(const Choice& choice, DeviceMesh* mesh);

  void bind(Communicator& group) override;
  at::Tensor scaled(const at::Tensor& loss) const override;
  bool has_scale() const override { return scale_.has_value(); }
  bool may_fall() const override { return scale_ && scale_->scale() > scale_->floor(); }
  bool unscale(const std::vector<at::Tensor>& leaves, bool was_scaled) override;
  bool is_unscaled() const override { return is_unscaled_; }
  void ended(bool has_updated) override;
  void gave_up() override { is_unscaled_ = false; }
  JsonReader::Json state() const override;
  void restore(const JsonReader::Json& state) override;

 private:
  bool is_finite_everywhere(bool is_finite_here);

  std::optional<LossScale> scale_;  // none: bf16
  DeviceMesh* mesh_;
  std::unique_ptr<Communicator> everyone_;  // none: nobody else decides
  bool is_unscaled_ = false;
};

// None: nothing stands between gradients and updates.
std::unique_ptr<parallel::MixedPrecision> make_numbers(const Choice& choice, DeviceMesh* mesh);

}  // namespace paceline::precision
