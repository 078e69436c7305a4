// AsynchronousWork: what a rank of a pipeline without a flush computes: forwards and backwards on
// versions of its stage's weights, and its updates, with tensors in and out.
//
// The loss of a micro-batch travels back with its gradient, so that every stage comes to know it
// without a message of its own.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "paceline/core/pipeline/pipeline.h"
#include "paceline/torch/pipeline/cut_shapes.h"
#include "paceline/torch/pipeline/made_stages.h"
#include "paceline/torch/pipeline/weight_versions.h"
#include "paceline/torch/replica/optimizer_factory.h"

namespace paceline::pipeline {

// THREAD: one.
class AsynchronousWork final : public StageWork {
 public:
  // `stages`, of which this rank has one, and `shapes` outlive this. Shapes are of all cuts at
  // which this rank receives, and change while nothing is in flight.
  AsynchronousWork(MadeStages& stages, Loss loss, const CutShapes& shapes, const VersionRule& rule,
                   const Turns& turns);

  // The next batch, called before its operations. `prepare` sets the optimizer's options for its
  // update, which may come later, and for those after it; null: they stay. `weight`: of its
  // gradient among the replicas; empty: as before.
  void hand_in(MicroBatches batch, const PrepareOptimizer& prepare, std::optional<double> weight);
  // The rank's turn takes the batches 0, R and so on of its replica, if its stage has R of them.
  bool is_own(int batch) const { return batch % turns_.replicas == turns_.replica; }
  // The mean loss over the samples of a batch, counted from 0, and the weight that it was handed in
  // with; once. REQUIRES: it is back here.
  struct BatchLoss {
    double loss = 0;
    std::optional<double> weight = {};
  };
  BatchLoss take_loss(int batch);
  // A message of the size of the last batch's first micro-batch, for Runner::send_unused().
  void make_unused(const Transfer& transfer);
  // All operations of all batches were computed: ends the updates that are still open, those of the
  // last round too, in which some replicas may have no batch. Batches are counted from 0 again. All
  // ranks of the stage call it.
  void restart();

  int most_versions() const { return most_versions_; }  // kept at a time, until now
  void train(bool on);

  std::vector<Buffer> room(const Transfer& transfer) override;
  void compute(const Operation& operation) override;
  std::vector<ConstBuffer> message(const Transfer& transfer) override;
  void sent(const Transfer& transfer) override { departing_.erase(transfer); }

 private:
  using OptimizerOptions = std::vector<std::unique_ptr<torch::optim::OptimizerOptions>>;
  struct Batch {
    std::int64_t samples = 0;
    BatchLoss loss;
  };
  struct Passing {  // a micro-batch, from hand_in() to the end of its backward
    int batch = 0;
    std::int64_t samples = 0;
    std::int64_t number = 0;  // of all micro-batches, for the masks of its passes
    Tensors inputs, outputs;  // at the last stage the outputs are the loss
    at::Tensor target;
  };
  bool is_last() const { return chunk_.stage == placement_.stages - 1; }
  Tensors taken(const Operation& operation);
  void forward(const Operation& operation);
  void backward(const Operation& operation);
  // A stage's ranks add their gradients up once a round, in which each computes one batch.
  void begin_update(const Batch& batch, const StageModule& used);
  void end_update(int contributors);
  void send(const Operation& operation, Tensors tensors);

  MadeStages& stages_;
  const Placement placement_;
  Chunk& chunk_;
  const Turns turns_;
  torch::optim::Optimizer* const optimizer_;  // null: it has nothing to train
  const Loss loss_;
  const CutShapes& shapes_;
  std::optional<WeightVersions> versions_;  // empty: it has nothing to train
  int most_versions_ = 1;
  int next_batch_ = 0, next_micro_batch_ = 0;
  std::int64_t first_samples_ = 0;           // of the first micro-batch of the last batch
  int begun_updates_ = 0;                    // since the last restart
  bool is_update_open_ = false;              // its gradients are on their way
  std::map<int, OptimizerOptions> options_;  // by update, those of its first batch
  std::map<int, Batch> batches_;
  std::map<int, Passing> passing_;
  std::map<Transfer, Tensors> arriving_, departing_;
};

}  // namespace paceline::pipeline
