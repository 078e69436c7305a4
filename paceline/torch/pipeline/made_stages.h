// MadeStages: the stages of one rank, made out of a list of layers: where the model is cut, each
// stage's module, what keeps its replicas in step, and its optimizer.
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/ordered_dict.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/mesh/mesh.h"
#include "paceline/core/pipeline/pipeline.h"
#include "paceline/core/plan/plan.h"
#include "paceline/torch/pipeline/layers.h"
#include "paceline/torch/pipeline/pipeline_options.h"
#include "paceline/torch/pipeline/stages_of_rank.h"
#include "paceline/torch/pipeline/tied_parameters.h"
#include "paceline/torch/precision/precision.h"
#include "paceline/torch/tensor/dropout.h"

namespace paceline::pipeline {

// THREAD: one. Every rank of the mesh makes one, and makes the same calls.
class MadeStages {
 public:
  // THROWS Error (misuse), as Pipeline's constructor does. It blocks.
  MadeStages(const Layers& layers, DeviceMesh& mesh, const PipelineOptions& options);
  MadeStages(const MadeStages&) = delete;
  MadeStages& operator=(const MadeStages&) = delete;

  const Order& order() const { return order_; }
  std::vector<Chunk>& chunks() { return chunks_; }  // by stage, the lowest first
  const std::vector<int>& first_layers() const { return first_layers_; }  // by stage
  // The ranks of this rank's stage that take mini-batches in turn; null: there is one.
  Communicator* turn_takers() { return turn_takers_.get(); }
  // Null: its DataParallel has optimizers of its own, or it has nothing to train.
  torch::optim::Optimizer* optimizer_of(int stage);
  TiedParameters& ties() { return *ties_; }
  // The factor by which the last stage multiplies the loss; none: the precision has no scale. All
  // ranks change it together.
  std::optional<precision::LossScale>& loss_scale() { return loss_scale_; }
  int recompute_every() const { return recompute_every_; }  // layers of a segment; 0: none is
  // Whether gradients of parameters are made apart from those that go to the rank before.
  bool splits_backward() const { return splits_backward_; }
  // Returns the number of steps that have ended, with this one.
  std::int64_t end_step() { return ++steps_; }
  // Numbers the next passes for the masks of Dropout layers; empty: by the number of steps that
  // have ended, as where a pass and its backward are of the same step.
  void number_passes(std::optional<std::int64_t> pass) { pass_ = pass; }

  // --- for checkpoints ---
  std::vector<DataParallel*> data_parallels();
  // The optimizers of this rank's stages, whoever made them.
  std::vector<torch::optim::Optimizer*> optimizers();
  Communicator& stage_group() { return stage_group_; }
  Communicator& world() { return mesh_.world(); }  // of the mesh
  // Whether this rank stands for the replicas of its stages.
  bool is_first_replica() {
    return mesh_.rank("dp,cp") == 0 && mesh_.rank("tp") == 0 &&
           (turn_takers_ == nullptr || turn_takers_->rank() == 0);
  }
  std::int64_t steps() const { return steps_; }
  const std::string& precision() const { return precision_; }  // of the whole model
  void go_on_from(std::int64_t steps) { steps_ = steps; }

  torch::OrderedDict<std::string, at::Tensor> state();
  std::string parameters_sha256();

 private:
  void split_layers(const PipelineOptions& options);
  void begin_training(const PipelineOptions& options);
  DataParallelOptions stage_training(const DataParallelOptions& whole);
  void drive_dropouts(const Layers& layers, std::uint64_t seed);

  DeviceMesh& mesh_;
  Communicator& stage_group_;
  const plan::StagePartition partition_;
  const Order order_;
  const std::string precision_;
  const int recompute_every_;
  const bool splits_backward_;
  std::vector<int> first_layers_;
  std::unique_ptr<Communicator> turn_takers_;
  std::vector<Chunk> chunks_;
  std::unique_ptr<TiedParameters> ties_;
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers_;  // by chunk; null: none
  std::optional<precision::LossScale> loss_scale_;
  std::shared_ptr<tensor::DropoutClock> clock_;
  std::int64_t steps_ = 0;
  std::optional<std::int64_t> pass_;
};

}  // namespace paceline::pipeline
