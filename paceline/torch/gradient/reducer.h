// The Reducer carries one step after the other from autograd's events to mean gradients
// (docs/guide/data_parallel.md).
//
//   birthplace (from the allocator)         lets the gradient be computed in its slot
//   arriving/accumulated (from the hooks)   moves the gradient into its slot, if it is not there;
//                                           a bucket whose gradients are all there is carried
//   finish (from synchronize)               carries what is left, waits, and hands the means to the
//                                           parameters; or lets them come later, and waits for each
//                                           when it is asked for
//
// Which parameters a rank used, and its weight, travel beside the gradients as notes: the data of a
// message are gradients alone. (D2 speaks of a trailer in the data; the note is the same facts
// outside of it.) A world of one moves nothing: gradients stay where autograd put them, only the
// checks for misuse remain.
//
// Beside it: what counts as misuse between backward() and finish() is parameter_watch.h, which
// gradients travel together and when gradient_schedule.h, how they travel gradient_carrier.h, what
// a note says step_note.h, how rows of sparse gradients are averaged sparse_gradients.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/base/stopwatch.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"
#include "paceline/core/observe/model_recorder.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/gradient/gradient_buckets.h"
#include "paceline/torch/gradient/gradient_carrier.h"
#include "paceline/torch/gradient/gradient_schedule.h"
#include "paceline/torch/gradient/parameter_watch.h"
#include "paceline/torch/gradient/step_note.h"
#include "paceline/torch/gradient/training_state.h"
#include "paceline/torch/replica/data_parallel_options.h"
#include "paceline/torch/replica/model_parts.h"
#include "paceline/torch/replica/step_report.h"

namespace paceline::parallel {

class Reducer {
 public:
  struct Outcome {
    double total_weight = 0;
    int root = -1;              // the lowest rank whose weight is not 0; -1: there is none
    bool overflowed = false;    // gradients were dropped, on all ranks: nothing to update with
    bool is_under_way = false;  // the means are to be received
  };

  // Both lists are trained; the sparse ones travel as rows, after the buckets (sparse_gradients.h).
  Reducer(std::vector<Parameter> dense, std::vector<Parameter> sparse, Communicator& group,
          Job* job, const DataParallelOptions& options);
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  void set_weight(double weight);
  // What set_weight() said last, to be said again with restore(), also "nothing yet".
  RankWeight weight() const { return weight_; }
  void restore(RankWeight weight);
  void pause();  // hooks only accumulate
  void resume();
  Outcome finish();
  // As finish(), but means may be under way still. Each bucket is given to `home`, once, when its
  // means have been handed out: by receive(), or before the next step begins. A bucket that
  // overflowed is not. Where the schedule has a barrier, all are at once.
  Outcome finish_early(std::function<void(const schedule::Bucket&)> home);
  // Until the parameter's mean gradient is there, if it is under way.
  void receive(std::size_t parameter);
  void receive_all();
  // Seconds that the optimizer took until now, for the planning of the schedule.
  void tell_update(double seconds) {
    update_seconds_ = seconds;
    updated_at_ = since_last_step_.seconds();
  }
  // What goes from step to step. THROWS Error (misuse) in the middle of one.
  TrainingState state();
  // Goes on from there: at once where the schedule was decided, else when it is. Collective.
  // THROWS Error: mismatch, it is of another rank, model or compression, or the ranks differ in it;
  // misuse as above.
  void restore(TrainingState state);
  // What ended the training together: thrown by all that follows.
  void fail(std::exception_ptr failure) { failure_ = std::move(failure); }

  // The buckets of the next step, as indices into the dense parameters.
  const std::vector<schedule::Bucket>& plan() const {
    return next_layout_ ? next_layout_->groups : buckets_->plan();
  }
  const StepReport& report() const { return report_; }
  bool in_step() const { return open_; }
  // Whether backward made a gradient since the last step ended.
  bool has_gradients() const;
  bool is_under_way() const { return is_step_open_late_; }

 private:
  // What is remembered of a parameter from its gradient's arrival to the end of the step.
  struct Progress {
    bool fired = false;        // its gradient was made in this step, and counts
    bool filled = false;       // its slot holds what this rank contributes
    bool accumulated = false;  // a gradient was made while hooks only accumulate
    int pass = 0;              // the last pass that made one
  };
  // A backward pass as the user sees it: with those that run within it. A nested one may make a
  // gradient before the one around it does; then it is not known yet which one that is.
  struct Pass {
    int number = 0;   // of this step's, from 1
    int latest = -1;  // backward() that made a gradient
    int outer = -1;   // -1: not known yet
    int nested = -1;  // the first one; -1: there is none
  };

  bool arriving(std::size_t i);
  void accumulated(std::size_t i, bool held_elsewhere);
  std::shared_ptr<void> birthplace(std::size_t i);
  bool begins_pass(std::size_t i) const;
  void enter_pass(std::size_t i);
  void refuse_second_backward(std::size_t i) const;
  std::string complaint() const;
  void take(std::size_t i, bool held_elsewhere);
  void contribute_without_gradient(std::size_t i);
  void filled(std::size_t i);
  void carry(std::size_t bucket);
  void show(std::size_t bucket);
  void carry_the_rest();
  Outcome end_of_step(bool early);
  Outcome collect(bool early);
  std::vector<StepNote> read_notes(std::size_t bucket);
  bool wait_for(std::size_t bucket);
  void drop_gradients(std::size_t parameters);
  void hand_out(std::size_t bucket);
  void bring_home(std::size_t bucket);
  Outcome weigh(const std::vector<RankWeight>& weights);
  void report(const Outcome& outcome);
  void record();
  void decide_next_layout();
  void go_on_with(GradientLayout layout);
  void require_between_steps(const char* call) const;
  void require_own(const TrainingState& state) const;
  void begin();
  void end();
  void expect_all();
  void lay_out_next();
  void leave_memory_of(const GradientBuckets& buckets, bool keep_values);

  bool alone() const { return group_.size() == 1; }
  bool is_dense(std::size_t i) const { return i < dense_; }
  bool accumulating() const { return paused_ || passes_ < passes_of_a_step_; }
  const std::vector<schedule::Bucket>& present_plan() const { return buckets_->plan(); }

  std::vector<Parameter> parameters_;  // the dense ones first
  const std::size_t dense_;
  Communicator& group_;
  Job* job_;
  GradientSchedule schedule_;
  const int passes_of_a_step_;
  std::unique_ptr<GradientBuckets> buckets_;
  std::unique_ptr<GradientCarrier> carrier_;
  std::optional<GradientLayout> next_layout_;  // none: the present one goes on
  std::vector<GradientHook> hooks_;
  ParameterWatch watch_;
  std::unique_ptr<observe::ModelRecorder> recorder_;  // none: nobody asked for the model

  RankWeight weight_;
  bool paused_ = false;

  bool open_ = false;                    // in a step: from the first gradient to finish()
  Pass pass_;                            // the present one, or the last
  int passes_ = 0;                       // of this step so far, without those under no_sync()
  std::vector<Progress> progress_;       // by parameter
  schedule::ObservedStep observed_;      // dense ones
  std::vector<std::size_t> missing_;     // by bucket: gradients that are not in their slots
  std::vector<bool> is_carried_;         // by bucket
  std::vector<std::vector<bool>> used_;  // by bucket and place: by some rank of weight > 0
  std::vector<bool> is_under_way_;       // by bucket: finished early, and not home
  std::function<void(const schedule::Bucket&)> home_;
  Stopwatch since_last_step_;  // ended
  double updated_at_ = 0;      // by that watch: the computation of this step began
  double mean_weight_ = 1;     // of the ranks, in the last step that had any
  double update_seconds_ = 0, under_way_before_ = 0, waited_ = 0;
  schedule::GradientPath::CodecWork coded_before_;
  bool crosses_barrier_ = false;    // as the present plan says
  bool is_step_open_late_ = false;  // the last step finished early, and has not ended
  std::exception_ptr failure_;      // of the communication: final
  StepReport report_, current_;
};

}  // namespace paceline::parallel
