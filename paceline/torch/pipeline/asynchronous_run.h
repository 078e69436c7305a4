// AsynchronousRun: one rank of a pipeline without a flush. It takes batch after batch and computes
// the operations of each one's turns (core/pipeline/order/turns.h); what is in flight then goes on
// with the next batch, or is drained.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/collective/collective.h"
#include "paceline/core/pipeline/pipeline.h"
#include "paceline/torch/pipeline/asynchronous_work.h"
#include "paceline/torch/pipeline/made_stages.h"

namespace paceline::pipeline {

// THREAD: one. All ranks of the pipeline, and of its replicas, make the same calls. Its memory may
// be written until the communicators that it makes are gone, so it ends with them.
class AsynchronousRun {
 public:
  // `stages` and `shapes` outlive this, and `options.schedule` is not synchronous. Collective.
  // THROWS Error (misuse), on all ranks of the pipeline: a layer of one of them cannot be cloned,
  // or is a SyncBatchNorm.
  AsynchronousRun(MadeStages& stages, DeviceMesh& mesh, const PipelineOptions& options,
                  const CutShapes& shapes);
  // Ends the communication, with a text, if batches are in flight: drain() comes before.
  ~AsynchronousRun();
  AsynchronousRun(const AsynchronousRun&) = delete;
  AsynchronousRun& operator=(const AsynchronousRun&) = delete;

  // The rank of the first stage that takes the next batch tells the others, of which it waits for
  // none: the samples of the batch; 1 if its shapes are others than those in flight, on any replica
  // of the pipeline; a number of its shapes. `wait` waits for what that rank tells.
  void tell(std::vector<std::int64_t>& told, const std::function<void(const Work&)>& wait);
  // Takes the next batch, as AsynchronousWork::hand_in() does. THROWS Error: what ended the
  // communication; then nothing can go on.
  StepReport step(MicroBatches batch, const PrepareOptimizer& prepare,
                  std::optional<double> weight);
  // Computes what is in flight. The weights of all stages are then of one version.
  void drain();

  // The batch that comes next, counted from 0 since the last drain.
  int next_batch() const { return batches_; }

  // The mean loss of the newest batch, over all replicas of the pipeline, that is back at the first
  // stage; the same on all ranks, unless a stage's ranks take turns: then of the newest batch of
  // this rank that is back. NaN: there was none.
  double loss() const { return loss_; }
  // The number, since the last drain, of the first micro-batch of the next step.
  int next_micro_batch() const { return batches_ * micro_batches_; }
  int most_versions() const { return work_->most_versions(); }
  Traffic traffic() const { return wire_->traffic(); }
  void train(bool on) { work_->train(on); }

 private:
  std::unique_ptr<AsynchronousWork> made_work(MadeStages& stages, const PipelineOptions& options,
                                              const CutShapes& shapes);
  StepReport run(const std::vector<Operation>& operations, std::optional<Operation> next = {});
  void abort(const std::string& reason);
  void take_losses(int owns);
  void meet_expected();

  Communicator &stage_group_, &replicas_;
  const Placement placement_;
  TraceLog& trace_;
  const Turns turns_;
  const int micro_batches_, behind_;  // a batch is back at the first stage so many batches later
  std::unique_ptr<AsynchronousWork> work_;
  std::unique_ptr<Communicator> words_, wire_;
  Runner runner_;
  std::uint64_t first_turn_ = 0;
  // Counts since the last drain: this rank's turns, all batches, and this rank's own batches whose
  // losses were taken.
  int turn_ = 0, batches_ = 0, losses_taken_ = 0;
  StepReport last_;  // of this rank's own turn
  double loss_ = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace paceline::pipeline
