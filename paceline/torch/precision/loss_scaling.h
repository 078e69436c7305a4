// LossScaling: what a training in 16 bits does in each step (replica/grads/mixed_precision.h tells
// when).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "paceline/core/base/json_reader.h"
#include "paceline/core/mesh/mesh.h"
#include "paceline/torch/precision/choice.h"
#include "paceline/torch/replica/replica.h"

namespace paceline::precision {

// LossScale: the factor by which a loss is multiplied, so that its small gradients are not 0 in
// fp16. It halves when gradients overflow and doubles after a number of good steps in a row.
class LossScale {
 public:
  // `scale`, `floor`: powers of two; it never falls below the floor. `interval`: good steps, at
  // least 1.
  LossScale(double scale, std::int64_t interval, double floor = 1)
      : scale_(scale), floor_(floor), interval_(interval) {}

  double scale() const { return scale_; }
  double floor() const { return floor_; }
  std::int64_t good_steps() const { return good_; }  // since it changed, or a step was skipped

  // Turns the grads of `leaves` into those of the loss that was not scaled. False: one of them is
  // not finite.
  bool unscale(const std::vector<at::Tensor>& leaves) const;
  // A step has ended, in which no gradient of any rank overflowed, or one did.
  void update(bool has_overflowed) {
    if (has_overflowed) {
      scale_ = std::max(scale_ * 0.5, floor_);
      good_ = 0;
    } else if (++good_ >= interval_) {
      scale_ = std::min(scale_ * 2, kMost);
      good_ = 0;
    }
  }

  // The state that goes from step to step. THROWS JsonReader::Json::exception: restore() got no
  // such state.
  JsonReader::Json state() const { return {{"scale", scale_}, {"good_steps", good_}}; }
  void restore(const JsonReader::Json& state) {
    scale_ = std::clamp(state.at("scale").get<double>(), floor_, kMost);
    good_ = state.at("good_steps").get<std::int64_t>();
  }

 private:
  // Gradients that are all zero never overflow; a float must still hold the scale, and 1 over it.
  static constexpr double kMost = 0x1p100;

  double scale_, floor_;
  std::int64_t interval_, good_ = 0;
};

class LossScaling final : public replica::MixedPrecision {
 public:
  // `mesh`: whose ranks all decide together; null: those of the group. It outlives this.
  LossScaling(const PrecisionChoice& choice, DeviceMesh* mesh);

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
std::unique_ptr<replica::MixedPrecision> make_mixed_precision(const PrecisionChoice& choice,
                                                              DeviceMesh* mesh);

}  // namespace paceline::precision
