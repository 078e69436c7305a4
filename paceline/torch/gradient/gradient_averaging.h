// GradientAveraging: synchronous data parallelism. In each step the gradient of every parameter
// becomes the weighted mean over all ranks (docs/guide/data_parallel.md).
//
//   birthplace (from the allocator)   lets the gradient be computed in its slot
//   arriving/arrived (from the hooks) moves the gradient into its slot, if it is not there; a
//   bucket
//                                     whose gradients are all there is sent
//   end_step                          sends what is left, waits, and hands the means to the
//                                     parameters; or lets them come later, and waits for each when
//                                     it is asked for
//
// The first gradient of a step tells all ranks this rank's weight (step_facts.h). Buckets leave as
// soon as all weights are known, each gradient times this rank's share; which parameters were used
// is told at the end. (D2 speaks of a trailer in the data; these are the same facts outside of it.)
// A world of one moves nothing: gradients stay where autograd put them, only the checks for misuse
// remain.
//
// Beside it: which passes a step has and what counts as misuse of them is passes.h, which
// gradients travel together and when gradient_schedule.h, how they travel
// core/schedule/path/gradient_path.h, or who takes them instead gradient_receiver.h, how rows of
// sparse gradients are averaged sparse_gradients.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/gradient/gradient_buckets.h"
#include "paceline/torch/gradient/gradient_receiver.h"
#include "paceline/torch/gradient/gradient_schedule.h"
#include "paceline/torch/gradient/passes.h"
#include "paceline/torch/gradient/step_facts.h"
#include "paceline/torch/gradient/step_figures.h"
#include "paceline/torch/gradient/training_state.h"
#include "paceline/torch/replica/data_parallel_options.h"
#include "paceline/torch/replica/parts/model_parts.h"
#include "paceline/torch/replica/step_report.h"
#include "paceline/torch/replica/synchrony.h"

namespace paceline::parallel {

class GradientAveraging final : public Synchrony {
 public:
  // `receiver`: takes the means instead of the parameters, and outlives this; null: there is none,
  // and each parameter's grad becomes its mean. With one the group has several ranks.
  GradientAveraging(const ModelParts& parts, Communicator& group, Job* job,
                    const DataParallelOptions& options, GradientReceiver* receiver = nullptr);
  ~GradientAveraging() override;
  GradientAveraging(const GradientAveraging&) = delete;
  GradientAveraging& operator=(const GradientAveraging&) = delete;

  bool arriving(std::size_t i) override;
  void arrived(std::size_t i, bool held_elsewhere) override;
  std::shared_ptr<void> birthplace(std::size_t i) override;
  void before_use(std::size_t i) override;
  void weigh(const RankWeight& weight) override { weight_ = weight; }
  void follow(ParameterWrites& writes) override { writes_ = &writes; }
  // Tells this rank's weight already before the step's first gradient. It must not change then.
  void tell_weight();
  // Its facts are told on this lane (StepFacts::watch).
  void watch_facts(const WatchedLane& lane, std::function<std::string()> where) {
    facts_.watch(lane, std::move(where));
  }
  // They pass to StepFacts.
  WatchedLane::Call tell_reading(std::size_t unit);
  void wait_for_reading(const WatchedLane::Call& told);
  // Whether some rank has weight 0 in this step. It waits for all weights. REQUIRES: tell_weight().
  bool has_shadows();
  void pause(bool paused) override { passes_.pause(paused); }
  bool in_step() const override { return open_; }
  bool has_gradients() const override;
  void steps_by(const Optimizers& optimizers) override;
  // With `updates`, means may be under way still where the schedule crosses the barrier. Each
  // bucket is updated, once, when its means are there: before its first use, by drain(), or before
  // the next step begins. A bucket that overflowed is not.
  StepOutcome end_step(OwnUpdates* updates) override;
  void stepped(const Optimizers& optimizers, double seconds) override;
  void drain() override;
  bool is_under_way() const override { return is_step_open_late_; }
  void fail(std::exception_ptr failure) override { failure_ = std::move(failure); }
  std::vector<at::Tensor> leaves() const override;
  bool is_lockstep() const override { return true; }
  bool may_differ() const override { return false; }
  void write_consensus() override {}
  SynchronyState state() override;
  // Goes on from there: at once where the schedule was decided, else when it is.
  void restore(const SavedSynchrony& saved) override;
  const StepReport& report() const override { return figures_.last(); }
  const std::vector<schedule::Bucket>& buckets() const override {
    return next_layout_ ? next_layout_->groups : buckets_->plan();
  }

 private:
  void take(std::size_t i, bool held_elsewhere);
  void hide(std::size_t i);
  void contribute_without_gradient(std::size_t i);
  bool contributes(std::size_t bucket) const;
  void acquire_memory(std::size_t bucket, bool in_backward);
  void release_memory(std::size_t bucket);
  void filled(std::size_t i);
  void send_full_buckets();
  void send(std::size_t bucket);
  void show(std::size_t bucket);
  void fill_the_rest();
  StepOutcome collect(OwnUpdates* updates);
  void learn_what_was_used();
  bool wait_for(std::size_t bucket);
  void drop_gradients(std::size_t parameters);
  void drop_elsewhere(std::size_t i);
  void hand_out(std::size_t bucket);
  void bring_home(std::size_t bucket);
  void report(const StepOutcome& outcome);
  void decide_next_layout();
  void go_on_with(GradientLayout layout);
  void require_between_steps(const char* call) const;
  std::vector<std::byte> own_part_of(const SavedSynchrony& saved) const;
  std::vector<std::byte> codec_state();
  void restore_codecs(std::vector<std::byte> state);
  // A failure of the communication in `call` is final: all later calls throw it.
  template <typename Call>
  decltype(auto) communicating(const Call& call) {
    try {
      return call();
    } catch (const Error&) {
      failure_ = std::current_exception();
      throw;
    }
  }
  void begin();
  void end();
  void expect_all();
  void lay_out();
  void lay_out_next();
  void leave_memory_of(const GradientBuckets& buckets, bool keep_values);

  bool alone() const { return group_.size() == 1; }
  bool needs_room() const { return receiver_ != nullptr && !receiver_->keeps_memory(); }
  bool is_dense(std::size_t i) const { return i < dense_; }
  const std::vector<schedule::Bucket>& present_plan() const { return buckets_->plan(); }

  std::vector<Parameter> parameters_;  // the dense ones first
  std::vector<at::Tensor> shapes_;     // of the dense ones, without memory
  std::vector<at::Tensor> stand_ins_;  // of the dense ones: their grads while gradients travel
  // They are the grads of the dense ones while the receiver has the means. Undefined: not yet made.
  std::vector<at::Tensor> elsewhere_;
  const std::size_t dense_;
  Communicator& group_;
  Job* const with_servers_;  // whose servers may form the means; null: the group does
  GradientReceiver* const receiver_;
  GradientSchedule schedule_;
  StepFacts facts_;
  std::unique_ptr<GradientBuckets> buckets_;
  // None: alone, no dense parameter, or a receiver.
  std::unique_ptr<schedule::GradientPath> path_;
  GradientLayout layout_;                      // of the buckets
  std::optional<GradientLayout> next_layout_;  // of the path already; none: `layout_` goes on
  std::vector<std::byte> codec_state_;         // kept while nothing is compressed
  Passes passes_;
  StepFigures figures_;

  RankWeight weight_;
  const ParameterWrites* writes_ = nullptr;

  bool open_ = false;                 // in a step: from the first gradient to end_step()
  std::vector<std::size_t> missing_;  // by bucket: gradients that are not in their slots
  std::vector<std::size_t> full_;     // buckets that wait for the weights
  std::vector<bool> is_sent_;         // by bucket
  std::vector<bool> used_;            // by parameter: by some rank of weight > 0
  std::vector<bool> is_on_its_way_;   // by bucket: the step ended, and its means are not home
  OwnUpdates* updates_ = nullptr;     // of a step that is under way
  double under_way_before_ = 0;
  schedule::GradientPath::CodecWork coded_before_;
  bool is_step_open_late_ = false;  // the last step ended under way, and is not home
  std::exception_ptr failure_;      // of the communication: final
};

// Makes the Synchrony that DataParallel uses.
std::unique_ptr<Synchrony> make_gradient_averaging(const ModelParts& parts, Communicator& group,
                                                   Job* job, const DataParallelOptions& options);

}  // namespace paceline::parallel
