// Replicas: one model, held equal on all ranks of a group. It is what a replica is; how replicas
// stay in step is the Synchrony's affair (synchrony.h).
#pragma once

#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/replica/batch_weight.h"
#include "paceline/torch/replica/callers_optimizers.h"
#include "paceline/torch/replica/data_parallel_options.h"
#include "paceline/torch/replica/ended_step.h"
#include "paceline/torch/replica/equal/shared_buffers.h"
#include "paceline/torch/replica/equality_watch.h"
#include "paceline/torch/replica/gated_update.h"
#include "paceline/torch/replica/gradient_hooks.h"
#include "paceline/torch/replica/grads/computed_parameters.h"
#include "paceline/torch/replica/grads/mixed_precision.h"
#include "paceline/torch/replica/leaves.h"
#include "paceline/torch/replica/parts/model_parts.h"
#include "paceline/torch/replica/per_parameter_optimizers.h"
#include "paceline/torch/replica/synchrony.h"

namespace paceline::replica {

class Consensus;

// The calls are those of DataParallel (parallel/data_parallel.h), which tells what they do and
// throw. THREAD: one.
class Replicas {
 public:
  // `job`: of the group; null: unknown. `mixed_precision`: that of options.precision; null: gradients and
  // updates are as they come. Collective.
  Replicas(ModelParts parts, Communicator& group, Job* job, const DataParallelOptions& options,
           MakeSynchrony make_synchrony, std::unique_ptr<MixedPrecision> mixed_precision = nullptr);
  ~Replicas();
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;

  void rebind(Communicator& group, int root);
  Communicator& group() const { return *group_; }

  void weigh(double weight);
  const RankWeight& weight() const { return weight_.now(); }
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
  std::vector<at::Tensor> parameters(const std::string& name) const { return leaves().of(name); }
  std::shared_ptr<void> gathered();

  // Goes on with this synchrony (DataParallelOptions::synchrony) from the consensus of the present
  // one. Collective.
  void change_synchrony(const std::string& text);
  at::Tensor mean(const at::Tensor& value);
  void loss(double loss) { synchrony().loss(loss); }
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
  void leaves_changed() {
    synchrony().leaves_changed();
    writes_->note();
  }
  // Those of DataParallelOptions::optimizer, by trained parameter; empty: the caller has one.
  Optimizers optimizers() const { return updates_ ? updates_->optimizers() : Optimizers(); }

  // Parameters whose values the model has in 16 bits (Parameter::computed).
  std::vector<Parameter> masters() const { return masters_of(parts_); }

  // Collective, between steps: the model holds what all replicas stand for, whole, until the result
  // is gone. Null: it does already. See parallel/model_file.h.
  std::shared_ptr<void> held_whole();
  // The group of what ranks do between messages of gradients.
  Communicator& calls() const { return calls_ ? *calls_ : *group_; }

  // THROWS Error (misuse): `optimizer` would step a parameter that has a gradient of this rank
  // alone.
  void require_own_gradients(const torch::optim::Optimizer& optimizer) const;

  // THROWS Error (misuse): rebind() failed, and there is none.
  Synchrony& synchrony() const;

 private:
  friend class Consensus;

  void bind(Communicator& group, int root);
  void begin_synchrony(MadeSynchrony made);
  DataParallelOptions options_with(const std::string& text) const;
  const Leaves& leaves() const;
  void note_update(StepEnd end);
  void masters_follow_writes();
  bool arriving(std::size_t parameter);
  EndedStep end_step(PerParameterOptimizers* updates);
  EndedStep end_gated_step(bool& may_update);
  void pass_gates(EndedStep& ended);
  bool leaves_out_own_step(PerParameterOptimizers* updates);
  void require_no_consensus() const;
  void end_update(bool has_updated);
  void finish_updates();
  bool step_gated_updates();
  void let_go_of_synchrony();
  std::shared_ptr<void> hold_gathered();
  void finish_updates_if_possible();
  // Whether step(optimizer) is the only end of a step.
  bool sees_updates() const { return synchrony().may_differ() || until_step_ > 0; }
  void change_if_due();
  void require_between_steps(const char* call) const;
  void report_step();
  void update_at_first_use();

  ModelParts parts_;
  Job* job_;
  DataParallelOptions options_;
  MakeSynchrony make_synchrony_;
  Communicator* group_ = nullptr;
  BatchWeight weight_;
  bool is_paused_ = false;
  std::unique_ptr<SharedBuffers> buffers_;
  std::unique_ptr<PerParameterOptimizers> updates_;  // none: the caller has an optimizer
  GatedUpdate gates_;
  std::unique_ptr<ParameterWrites> writes_;
  std::unique_ptr<Synchrony> synchrony_;
  std::unique_ptr<Leaves> leaves_;       // of the synchrony
  std::vector<GradientHook> hooks_;      // by trained parameter
  std::unique_ptr<FirstUse> first_use_;  // while parameters are under way
  // The end that synchronize() found, until the next step.
  std::optional<StepEnd> synchronized_;
  std::optional<std::uint64_t> looked_at_;  // the stamp of writes_ when this step looked
  // Checks and means stand between messages of gradients in an order that may differ from rank to
  // rank, so they have a group of their own.
  std::unique_ptr<Communicator> calls_;  // none: one rank
  EqualityWatch equality_;               // compares in it
  StepReport report_;
  const std::string given_synchrony_;  // as the training began
  std::int64_t steps_before_ = 0;      // of synchronies before the present one
  std::int64_t until_step_ = 0;        // of the present one; 0: to the end
  std::string then_;
  Consensus* consensus_ = nullptr;                 // that is in force; null: none is
  std::weak_ptr<std::shared_ptr<void>> gathered_;  // by the last guard
  CallersOptimizers optimizers_;
  OwnThread thread_;
  std::shared_ptr<const void> life_ = std::make_shared<char>();
};

}  // namespace paceline::replica
