// Replicas: one model, held equal on all ranks of a group. It is what a replica is; how replicas
// stay in step is the Synchrony's affair (synchrony.h).
#pragma once

#include <torch/optim/optimizer.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/replica/clip_grad_norm.h"
#include "paceline/torch/replica/data_parallel_options.h"
#include "paceline/torch/replica/grads/finite_watch.h"
#include "paceline/torch/replica/grads/gradient_note.h"
#include "paceline/torch/replica/grads/numbers.h"
#include "paceline/torch/replica/own_updates.h"
#include "paceline/torch/replica/parts/model_parts.h"
#include "paceline/torch/replica/rank_weight.h"
#include "paceline/torch/replica/shared_buffers.h"
#include "paceline/torch/replica/synchrony.h"
#include "paceline/torch/replica/told_replicas.h"
#include "paceline/torch/replica/window_weights.h"

namespace paceline::parallel {

// The calls are those of DataParallel (parallel/data_parallel.h), which tells what they do and
// throw. THREAD: one.
class Replicas : private GradientOwner {
 public:
  // `job`: of the group; null: unknown. `numbers`: those of options.precision; null: gradients and
  // updates are as they come. Collective.
  Replicas(ModelParts parts, Communicator& group, Job* job, const DataParallelOptions& options,
           MakeSynchrony make_synchrony, std::unique_ptr<Numbers> numbers = nullptr);
  ~Replicas() override;
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;

  void rebind(Communicator& group, int root);
  Communicator& group() const { return *group_; }

  void weigh(double weight);
  const RankWeight& weight() const { return weight_; }
  // Says what weight() returned earlier. For destructors: it throws nothing.
  void restore_weight(const RankWeight& weight);
  void pause();
  void resume();  // for destructors: it throws nothing

  // `optimizer`: which will step with the gradients; null: unknown.
  bool synchronize(torch::optim::Optimizer* optimizer = nullptr);
  bool step(torch::optim::Optimizer& optimizer);
  bool step(PrepareOptimizer prepare);
  void finish();
  double clip_grad_norm(double max_norm);
  std::vector<at::Tensor> parameters() const { return synchrony().leaves(); }
  void backward(const at::Tensor& loss);
  const DataParallelOptions& options() const { return options_; }
  // Expires when this ends, for guards that may live longer.
  std::weak_ptr<const void> life() const { return life_; }
  std::vector<at::Tensor> parameters(const std::string& name) const;
  std::shared_ptr<void> gathered();

  // Goes on with this synchrony (DataParallelOptions::synchrony) from the consensus of the present
  // one. Collective.
  void change_synchrony(const std::string& text);
  at::Tensor mean(const at::Tensor& value);
  void loss(double loss) { synchrony().loss(loss); }
  class Consensus;
  const StepReport& report() const { return report_; }

  // --- for checkpoints ---
  const ModelParts& parts() const { return parts_; }
  // Whether each rank has values of its own in this tensor of the model.
  bool may_differ(const at::Tensor& tensor) const;
  // The state of the synchrony; and goes on from one, with the synchrony that was saved. See
  // Synchrony. THROWS Error (misuse), from restore(): it was saved by a training that began with
  // another synchrony.
  SynchronyState state();
  void restore(const SavedSynchrony& saved);
  // The model takes the values that were written into parameters(). Collective.
  void leaves_changed();
  // Those of DataParallelOptions::optimizer, by trained parameter; empty: the caller has one.
  std::vector<torch::optim::Optimizer*> optimizers() const;

  // Parameters whose values the model has in 16 bits (Parameter::computed).
  std::vector<Parameter> masters() const;

  // Collective, between steps: the model holds what all replicas stand for, whole, until the result
  // is gone. Null: it does already. See parallel/whole_state.h.
  std::shared_ptr<void> held_whole();
  // The group of what ranks do between messages of gradients.
  Communicator& calls() const { return calls_ ? *calls_ : *group_; }

  // THROWS Error (misuse): `optimizer` would step a parameter that has a gradient of this rank
  // alone.
  void require_own_gradients(const torch::optim::Optimizer& optimizer) const;

  // THROWS Error (misuse): rebind() failed, and there is none.
  Synchrony& synchrony() const;

 private:
  struct EndedStep {
    StepOutcome outcome;
    std::string not_hooked, unfrozen, added;  // parameters that the user changed; empty: none
    std::string unscaled;    // one whose gradient was made without the scale of fp16
    std::string not_finite;  // the text with which all ranks end; empty: they go on
    bool is_fine() const {
      return not_hooked.empty() && unfrozen.empty() && added.empty() && unscaled.empty() &&
             not_finite.empty() && outcome.complaint.empty();
    }
  };

  void bind(Communicator& group, int root);
  void begin_synchrony(MadeSynchrony made);
  DataParallelOptions options_with(const std::string& text) const;
  void hook();
  void note_gradients();
  std::string name_of(std::size_t parameter) const override;
  std::vector<at::Tensor> leaves_of(std::size_t parameter) const override;
  double norm_of(std::size_t parameter, double norm_type) const override;
  NormShares norm_shares() const override;
  void require_means(const char* call) const override;
  void compare_replicas(std::int64_t step, bool is_due = false);
  void note_update(StepEnd end);
  void masters_follow_writes();
  bool arriving(std::size_t parameter);
  void check_replicas(std::int64_t step);
  bool may_compare() const;
  std::optional<Failure> compared(std::chrono::milliseconds within);
  void see_parameters();
  bool are_as_seen() const;
  void compare_at_the_end();
  EndedStep end_step(OwnUpdates* updates);
  bool is_gated() const {
    return numbers_ != nullptr || options_.max_grad_norm > 0 || finite_.looks();
  }
  EndedStep end_gated_step(bool& may_update);
  void prepare_gradients(EndedStep& ended);
  void end_left_out_step();
  void show_gradients_of_masters() const;
  void hide_gradients_of_masters() const;
  void watch_clipping();
  void refuse_clipped_parts();
  double clip_leaves(double max_norm);
  // --- steps that are not finite (replicas_finite.cpp) ---
  struct NotFinite {
    std::size_t parameter = 0;
    std::optional<int> rank = {};  // none: it is the mean of gradients that were finite
  };
  void gradient_made(std::size_t i, const Parameter& parameter);
  std::optional<std::size_t> first_not_finite() const;
  bool is_true_everywhere(bool here) const;
  bool means_are_finite() const;
  std::optional<NotFinite> agreed_first() const;
  std::string text_on(const std::optional<NotFinite>& first, std::int64_t step) const;
  bool is_scale_to_blame() const;
  void drop_gradients();
  void leave_out(EndedStep& ended, std::int64_t step, bool is_refused = false);
  void count_overflow(EndedStep& ended);
  bool leaves_out_own_step(OwnUpdates* updates);
  void require_no_consensus() const;
  int own_rank() const { return job_ != nullptr ? job_->rank() : group_->rank(); }
  void end_update(bool has_updated);
  void finish_updates();
  bool step_gated_updates();
  void read_model();
  void write_model();
  void refuse_model_parameters(const torch::optim::Optimizer& optimizer) const;
  void refuse(const EndedStep& ended) const;
  void equalise_optimizers(const Optimizers& optimizers);
  void let_go_of_synchrony();
  std::shared_ptr<void> hold_gathered();
  void finish_updates_if_possible();
  void require_equal_rates(const Optimizers& optimizers);
  void tell_rates(Optimizers optimizers);
  std::string complaint_of_second(const torch::optim::Optimizer& optimizer) const;
  void change_if_due();
  void require_between_steps(const char* call) const;
  void report_step();
  std::string not_hooked_parameter() const;
  std::string unfrozen_parameter() const;
  std::string added_parameter() const;
  std::string stranger_of(const torch::optim::Optimizer& optimizer) const;
  std::function<bool(const at::Tensor&)> counted_leaves() const;
  std::vector<Parameter> named_leaves() const;
  void update_at_first_use();

  ModelParts parts_;
  Job* job_;
  DataParallelOptions options_;
  MakeSynchrony make_synchrony_;
  Communicator* group_ = nullptr;
  RankWeight weight_;  // of the step, so far
  std::unique_ptr<WindowWeights> window_;
  bool is_paused_ = false;
  std::unique_ptr<SharedBuffers> buffers_;
  std::unique_ptr<OwnUpdates> updates_;  // none: the caller has an optimizer
  std::unique_ptr<Numbers> numbers_;     // none: gradients are as they come
  std::unique_ptr<ParameterWrites> writes_;
  std::unique_ptr<Synchrony> synchrony_;
  std::vector<GradientHook> hooks_;  // by trained parameter
  // Notes on the model's parameters and the leaves point to it; null: nothing is noted.
  std::shared_ptr<NotedGradients> noted_;
  std::unique_ptr<FirstUse> first_use_;  // while parameters are under way
  // It lives from synchronize() to the next step where this rank has a part of the gradients.
  std::unique_ptr<ScalingByNorm> clipping_;
  // The end that synchronize() found, until the next step.
  std::optional<StepEnd> synchronized_;
  std::optional<std::uint64_t> looked_at_;  // the stamp of writes_ when this step looked
  FiniteWatch finite_;
  bool is_finite_ = true;           // of the step that ended last: it was not left out
  bool is_in_backward_ = false;     // of Replicas, which scales the loss
  bool is_loss_finite_ = true;      // of this step's, where somebody looks
  std::string unscaled_parameter_;  // of this step: made by another backward pass; empty: none
  // Checks and means stand between messages of gradients in an order that may differ from rank to
  // rank, so they have a group of their own.
  std::unique_ptr<Communicator> calls_;                      // none: one rank
  std::unique_ptr<ToldReplicas> told_;                       // none: one rank, or no checks
  std::vector<std::pair<const void*, std::uint32_t>> seen_;  // parameters after the last step
  StepReport report_;
  const std::string given_synchrony_;  // as the training began
  std::int64_t steps_before_ = 0;      // of synchronies before the present one
  std::int64_t until_step_ = 0;        // of the present one; 0: to the end
  std::string then_;
  Consensus* consensus_ = nullptr;                 // that is in force; null: none is
  std::weak_ptr<std::shared_ptr<void>> gathered_;  // by the last guard
  // Replicas are equal from here on, and their optimizers, which the caller has, may not be yet.
  bool optimizers_may_differ_ = false;
  // Those that have taken the mean since; never followed, for they may be gone.
  std::unordered_set<const torch::optim::Optimizer*> equalised_;
  bool check_next_ = false;  // whether replicas are equal: somebody may have missed that
  const torch::optim::Optimizer* last_optimizer_ = nullptr;  // never followed either
  Optimizers told_rates_;                                    // in the step that ends
  OwnThread thread_;
  std::shared_ptr<const void> life_ = std::make_shared<char>();
};

// While it lives, the model holds the consensus of all replicas. It ends when the replicas do.
class Replicas::Consensus {
 public:
  explicit Consensus(Replicas& replicas);
  ~Consensus() { end(); }
  Consensus(const Consensus&) = delete;
  Consensus& operator=(const Consensus&) = delete;

  // The replica does not come back.
  void stay() { tensors_.clear(); }
  // Gives the replica back, once.
  void end();

 private:
  Replicas* replicas_;  // null: it has ended
  std::vector<at::Tensor> tensors_, own_values_;
  std::shared_ptr<void> gathered_;
};

}  // namespace paceline::parallel
