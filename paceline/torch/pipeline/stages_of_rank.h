// StagesOfRank: what a rank of a pipeline computes: forwards and backwards of its own stages, with
// tensors in and out.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "paceline/core/pipeline/pipeline.h"
#include "paceline/torch/bridge/bridge.h"
#include "paceline/torch/parallel/parallel.h"
#include "paceline/torch/pipeline/cut_shapes.h"
#include "paceline/torch/pipeline/stage_module.h"

namespace paceline::pipeline {

// The loss of a micro-batch, its mean over the samples.
using Loss = std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)>;

// A stage of this rank.
struct Chunk {
  int stage = 0;
  std::shared_ptr<StageModule> module;
  std::unique_ptr<DataParallel> parallel;  // null: it has nothing to train
};

// The micro-batches of one step. A rank without the first or last stage has no data or target.
struct MicroBatches {
  std::vector<std::int64_t> samples;  // of each
  std::vector<Tensors> data;          // by micro-batch
  Tensors target;                     // by micro-batch
  std::int64_t sum() const;
};

// THREAD: one.
class StagesOfRank final : public StageWork {
 public:
  // `chunks` outlive this.
  // `recompute_every`: as StageModule::forward() takes it. `splits_backward`: backwards leave the
  // gradients of parameters, where layers can, to the operations of kind weight.
  StagesOfRank(Placement placement, std::vector<Chunk>& chunks, Loss loss, int recompute_every = 0,
               bool splits_backward = false);

  // Measures the layers, for which all activations are kept, until `watch` has seen enough of them.
  // It lives as long as this.
  void measure(LayerWatch& watch);

  // Called before the operations of a step. `shapes`: of all cuts at which this rank receives.
  // `loss_scale`: by which the last stage multiplies the loss before it goes back.
  void begin_step(MicroBatches micro_batches, const CutShapes& shapes, double loss_scale = 1);
  // The mean loss over the samples of the step, if the last stage is here. REQUIRES: all operations
  // of the step were computed.
  std::optional<double> end_step();

  std::vector<Buffer> room(const Transfer& transfer) override;
  void compute(const Operation& operation) override;
  std::vector<ConstBuffer> message(const Transfer& transfer) override;
  void sent(const Transfer& transfer) override { departing_.erase(transfer); }

 private:
  using Place = std::pair<int, int>;  // stage and micro-batch
  struct Live {
    Tensors inputs, outputs;  // of one pass; at the last stage the outputs are the loss
    std::unique_ptr<LaterGradients> later;  // null: its backward leaves nothing
  };
  Chunk& chunk_of(int stage);
  bool is_last(int stage) const { return stage == placement_.stages - 1; }
  Tensors taken_inputs(const Operation& operation);
  void forward(const Operation& operation);
  bool is_measured() const { return watch_ != nullptr && !watch_->is_complete(); }
  void backward(const Operation& operation);
  bool is_last_pass(const Operation& operation) const;
  void begin_sending(int stage);
  void run_backward(Chunk& chunk, const Live& live, const Tensors& gradients);
  void weight(const Operation& operation);
  void hand_on(const Operation& operation, Tensors tensors);

  const Placement placement_;
  std::vector<Chunk>& chunks_;
  const Loss loss_;
  const int recompute_every_;
  const bool splits_backward_;
  LayerWatch* watch_ = nullptr;
  MicroBatches micro_batches_;
  double loss_scale_ = 1;
  const CutShapes* shapes_ = nullptr;
  std::map<Place, Live> live_;
  std::map<Place, std::unique_ptr<LaterGradients>> later_;  // between backward and weight
  std::map<Transfer, Tensors> arriving_, departing_;
  std::map<Operation, Tensors> handed_;         // from a stage of this rank to another one of it
  std::map<int, DataParallel::NoSync> unsent_;  // by stage, before the last gradients of it
  at::Tensor loss_sum_;
};

// Cuts a batch into micro-batches. The parts are those of torch.tensor_split. `data`: where the
// first stage is, otherwise null; `target`: where the last one is, otherwise null. THROWS Error
// (misuse): the target has not `samples` rows. REQUIRES: samples >= parts.
MicroBatches cut_batch(const Tensors* data, const at::Tensor* target, std::int64_t samples,
                       int parts);

}  // namespace paceline::pipeline
