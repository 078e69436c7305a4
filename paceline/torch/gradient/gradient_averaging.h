// GradientAveraging: synchronous data parallelism. In each step the gradient of every parameter
// becomes the weighted mean over all ranks (docs/guide/data_parallel.md).
//
//   gradient_memory (from the allocator)   lets the gradient be computed in its slot
//   arriving/arrived (from the hooks) moves the gradient into its slot, if it is not there; a
//                                     bucket whose gradients are all there is sent
//   end_step                          sends what is left, waits, and hands the means to the
//                                     parameters; or lets them come later, and waits for each when
//                                     it is asked for
//
// The first gradient of a step tells all ranks this rank's weight (step_agreement.h). Buckets leave
// as soon as all weights are known, each gradient times this rank's share (outgoing_buckets.h);
// which parameters were used is told at the end.
//
// A rank gets its means in one of three forms (means.h): its own gradients where it has no peers,
// whole means over a path that a schedule plans (scheduled_path.h), or pieces of them. Which
// backward passes a step has and what counts as misuse of them is passes.h; rows of sparse
// gradients are averaged apart (sparse_gradients.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"
#include "paceline/torch/gradient/gradient_step.h"
#include "paceline/torch/gradient/incoming_means.h"
#include "paceline/torch/gradient/means.h"
#include "paceline/torch/gradient/outgoing_buckets.h"
#include "paceline/torch/gradient/scheduled_path.h"
#include "paceline/torch/replica/data_parallel_options.h"
#include "paceline/torch/replica/parts/model_parts.h"
#include "paceline/torch/replica/step_report.h"
#include "paceline/torch/replica/synchrony.h"

namespace paceline::gradient {

class GradientAveraging final : public replica::Synchrony {
 public:
  // `means`: of a group of several ranks; they outlive this. Null: each parameter's grad becomes
  // its whole mean.
  GradientAveraging(const replica::ModelParts& parts, Communicator& group, Job* job,
                    const DataParallelOptions& options, Means* means = nullptr);
  ~GradientAveraging() override;
  GradientAveraging(const GradientAveraging&) = delete;
  GradientAveraging& operator=(const GradientAveraging&) = delete;

  bool arriving(std::size_t i) override;
  void arrived(std::size_t i, bool held_elsewhere) override;
  std::shared_ptr<void> gradient_memory(std::size_t i) override;
  void before_use(std::size_t i) override { incoming_.before_use(i); }
  void weigh(const replica::RankWeight& weight) override { step_.weight = weight; }
  void follow(replica::ParameterWrites& writes) override { writes_ = &writes; }
  // Tells this rank's weight already before the step's first gradient. It must not change then.
  void tell_weight();
  // Its facts are told on this lane (StepAgreement::watch).
  void watch_facts(const replica::WatchedLane& lane, std::function<std::string()> where) {
    step_.facts.watch(lane, std::move(where));
  }
  // They pass to StepAgreement.
  replica::WatchedLane::Call tell_reading(std::size_t unit) { return step_.tell_reading(unit); }
  void wait_for_reading(const replica::WatchedLane::Call& told) { step_.wait_for_reading(told); }
  // Whether some rank has weight 0 in this step. It waits for all weights. REQUIRES: tell_weight().
  bool has_shadows() { return step_.has_shadows(); }
  void pause(bool paused) override { step_.passes.pause(paused); }
  bool in_step() const override { return open_; }
  bool has_gradients() const override { return open_ || step_.passes.has_accumulated_any(); }
  void steps_by(const replica::Optimizers& optimizers) override;
  // With `updates`, means may be under way still where the schedule crosses the barrier
  // (incoming_means.h).
  replica::StepOutcome end_step(replica::PerParameterOptimizers* updates) override;
  void stepped(const replica::Optimizers& optimizers, double seconds) override;
  void drain() override { incoming_.drain(); }
  bool is_under_way() const override { return incoming_.are_under_way(); }
  void fail(std::exception_ptr failure) override { step_.failure.set(std::move(failure)); }
  std::vector<at::Tensor> leaves() const override;
  bool is_lockstep() const override { return true; }
  bool may_differ() const override { return false; }
  void write_consensus() override {}
  replica::SynchronyState state() override;
  // Goes on from there: at once where the schedule was decided, else when it is.
  void restore(const replica::SavedSynchrony& saved) override;
  const StepReport& report() const override { return step_.figures.last(); }
  const std::vector<schedule::Bucket>& buckets() const override {
    return path_->next_layout() ? path_->next_layout()->groups : means_.layout().groups;
  }

 private:
  void begin();
  replica::StepOutcome collect(replica::PerParameterOptimizers* updates);
  void report(const replica::StepOutcome& outcome);
  void drop_gradients(std::size_t parameters);
  void drop_gradients_elsewhere();
  void require_between_steps(const char* call) const;

  bool is_dense(std::size_t i) const { return i < dense_; }

  const std::vector<replica::Parameter> parameters_;  // the dense ones first
  const std::size_t dense_;
  Communicator& group_;
  GradientStep step_;
  std::unique_ptr<ScheduledPath> path_;
  const std::unique_ptr<Means> own_means_;  // null: they are the caller's
  Means& means_;
  OutgoingBuckets outgoing_;
  IncomingMeans incoming_;
  const replica::ParameterWrites* writes_ = nullptr;
  bool open_ = false;  // in a step: from the first gradient to end_step()
};

// Makes the Synchrony that DataParallel uses.
std::unique_ptr<replica::Synchrony> make_gradient_averaging(const replica::ModelParts& parts,
                                                            Communicator& group, Job* job,
                                                            const DataParallelOptions& options);

}  // namespace paceline::gradient
