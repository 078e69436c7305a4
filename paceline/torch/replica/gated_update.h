// Gates stand between the mean gradients of a step and its update: a precision of 16 bits scales
// the loss and unscales gradients, gradients are clipped, and steps whose gradients are not finite
// are left out. All ranks decide alike.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "paceline/core/base/json_reader.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/replica/data_parallel_options.h"
#include "paceline/torch/replica/ended_step.h"
#include "paceline/torch/replica/grads/finite_watch.h"
#include "paceline/torch/replica/grads/mixed_precision.h"
#include "paceline/torch/replica/leaves.h"
#include "paceline/torch/replica/parts/model_parts.h"
#include "paceline/torch/replica/synchrony.h"

namespace paceline::replica {

// THREAD: one. `step` is the number in the training of the step that ends.
class GatedUpdate {
 public:
  // `parts` outlive this. `job`: of the group; null: unknown. `mixed_precision`: that of
  // options.precision; null: gradients and updates are as they come.
  GatedUpdate(const ModelParts& parts, Job* job, const DataParallelOptions& options,
              std::unique_ptr<MixedPrecision> mixed_precision);

  // Goes on among these ranks. `calls`: for what is told beside gradients; null: one rank.
  void bind(Communicator& group, Communicator* calls);
  // Goes on with this synchrony and its leaves, which outlive this or the next call.
  void follow(Synchrony& synchrony, const Leaves& leaves);

  // THROWS Error (misuse): a training was saved with a scale of the loss, and this one has none, or
  // the other way round.
  void require_same_scale(const JsonReader::Json& saved) const;

  MixedPrecision* mixed_precision() const { return mixed_precision_.get(); }
  bool is_gate() const { return mixed_precision_ != nullptr || max_norm_ > 0 || finite_.looks(); }
  // Whether gradient_made() has to be called.
  bool sees_gradients() const;
  bool is_finite() const { return is_finite_; }  // of the last step: it was not left out
  std::int64_t skipped() const { return finite_.skipped(); }

  // loss.backward(), with the loss scaled. `counts`: this rank has a batch.
  void backward(const at::Tensor& loss, bool counts);
  // Called by autograd, before the gradient goes on its way.
  void gradient_made(std::size_t i, const Parameter& parameter);

  void begin_end() { is_finite_ = true; }
  // Makes the mean gradients those that an optimizer may step with: unscaled, finite, clipped. All
  // ranks call it, also those that will complain.
  void prepare(EndedStep& ended, std::int64_t step);
  // A compression found values that it cannot carry, and no rank has gradients.
  void count_overflow(EndedStep& ended, std::int64_t step);
  // Whether leaves_out_own_step() has to be called.
  bool looks_at_own_steps() const { return finite_.looks() && synchrony_->keeps_gradients(); }
  // True: this rank's gradients have not gone anywhere yet, and never will, because one is not
  // finite on some rank of those that step together. `counts`: this rank has a batch.
  bool leaves_out_own_step(EndedStep& ended, std::int64_t step, bool counts);
  // synchronize() left a step out, and the caller went on without step(optimizer).
  void end_left_out_step();
  // The step is over without step(optimizer), if it is not fine.
  void give_up(const EndedStep& ended);
  void drop_gradients();

  // DataParallel::clip_grad_norm(), in the step after `step` ones.
  double clip(double max_norm, std::int64_t step);
  // libtorch's own clipping cannot know of the other ranks' parts: it is refused in the next step.
  void watch_clipping();
  void forget_clipping() { clipping_.reset(); }
  void refuse_clipped_parts();

 private:
  struct NotFinite {
    std::size_t parameter = 0;
    std::optional<int> rank = {};  // none: it is the mean of gradients that were finite
  };
  bool is_true_everywhere(bool here) const;
  bool means_are_finite() const;
  std::optional<NotFinite> agreed_first() const;
  std::string text_on(const std::optional<NotFinite>& first, std::int64_t step) const;
  bool is_scale_to_blame() const;
  void leave_out(EndedStep& ended, std::int64_t step, bool is_refused = false);
  int own_rank() const { return job_ != nullptr ? job_->rank() : group_->rank(); }

  const ModelParts& parts_;
  Job* const job_;
  const double max_norm_;  // 0: gradients are not clipped
  const std::string precision_;
  const std::unique_ptr<MixedPrecision> mixed_precision_;
  FiniteWatch finite_;
  Communicator* group_ = nullptr;
  Communicator* calls_ = nullptr;
  Synchrony* synchrony_ = nullptr;
  const Leaves* leaves_ = nullptr;
  // It lives from synchronize() to the next step where this rank has a part of the gradients.
  std::unique_ptr<ScalingByNorm> clipping_;
  bool is_finite_ = true;
  bool is_in_backward_ = false;     // of ours, which scales the loss
  bool is_loss_finite_ = true;      // of this step's, where somebody looks
  std::string unscaled_parameter_;  // of this step: made by another backward pass; empty: none
};

}  // namespace paceline::replica
