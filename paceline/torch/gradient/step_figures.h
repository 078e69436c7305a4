// The figures of a step as it runs: what its report tells, and what schedules and records of the
// model learn from it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "paceline/core/base/stopwatch.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/job/job.h"
#include "paceline/core/observe/model_recorder.h"
#include "paceline/core/schedule/schedule.h"
#include "paceline/torch/gradient/step_agreement.h"
#include "paceline/torch/replica/parts/model_parts.h"
#include "paceline/torch/replica/step_report.h"
#include "paceline/torch/replica/synchrony.h"

namespace paceline::gradient {

class StepFigures {
 public:
  // `dense`: the parameters whose gradients count. `job`: of the group; null: unknown.
  StepFigures(std::span<const replica::Parameter> dense, const Communicator& group, Job* job);

  StepReport& current() { return current_; }        // of the step that runs
  const StepReport& last() const { return last_; }  // of the last one that ended

  // A gradient was made in a pass that only accumulates.
  void pass_accumulated();
  // This dense gradient was made in the pass that sends.
  void arrived(std::size_t i);
  // So many messages have started so far. Of interest until backward ends.
  void started(int messages);
  void backward_ended() { is_in_backward_ = false; }
  void weighed(const StepWeights& weights);
  // Calls it, and counts the time as waited for others.
  template <typename Call>
  auto waiting(const Call& call) {
    const StopwatchScope scope(waited_);
    return call();
  }
  // The optimizers have stepped, which took `seconds`.
  void updated(double seconds);

  // The step has ended so. What others know of it stands in current() already.
  void report(replica::StepEnd end, const std::vector<schedule::Bucket>& buckets);
  // The times that were seen in the step that has ended.
  schedule::ObservedStep& observed() { return observed_; }
  // Adds it to the record of the model, if there is one; `passes`: of the step.
  void record(const replica::RankWeight& weight, int passes);
  void begin_next();

 private:
  double now() const { return since_last_step_.seconds() - updated_at_; }

  const double bytes_;                                // of all dense gradients
  std::unique_ptr<observe::ModelRecorder> recorder_;  // none: nobody asked for the model
  schedule::ObservedStep observed_;
  Stopwatch since_last_step_;   // ended
  double updated_at_ = 0;       // by that watch: the computation of this step began
  double last_pass_ended_ = 0;  // after that, of the passes that only accumulated
  double update_seconds_ = 0, waited_ = 0;
  StepReport last_, current_;
  bool is_in_backward_ = true;
  bool has_peers_ = false;
};

// Records the model of a training's steps, from the gradients of `dense`, as a file for `paceline
// profile`. Returns nothing unless the environment asks for it (PACELINE_RECORD), and this is rank
// 0 of the job and of the group. THROWS Error (io): the file cannot be written.
std::unique_ptr<observe::ModelRecorder> recorder_of(std::span<const replica::Parameter> dense,
                                                    const Communicator& group, Job* job);

}  // namespace paceline::gradient
