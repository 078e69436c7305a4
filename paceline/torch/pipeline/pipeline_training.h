// Pipeline: trains a model whose layers stand on several ranks, stage by stage, a batch in
// micro-batches (docs/guide/pipelines.md).
//
//   paceline::DeviceMesh mesh(job, "pp=2,dp=2");
//   paceline::Pipeline pipeline(layers, mesh, {.schedule = "1f1b", .micro_batches = 8,
//                                              .loss = cross_entropy, .optimizer = make_adam});
//   for (auto& batch : loader) report(pipeline.step(batch.data, batch.target));
//   pipeline.finish();
//
// On a mesh without pp it accumulates over the micro-batches, with the same bits.
// Huang et al., GPipe, NeurIPS 2019; Narayanan et al., PipeDream, SOSP 2019; Narayanan et al.,
// Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, SC 2021.
#pragma once

#include <torch/nn/module.h>
#include <torch/ordered_dict.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/mesh/mesh.h"
#include "paceline/torch/parallel/parallel.h"
#include "paceline/torch/pipeline/layers.h"
#include "paceline/torch/pipeline/pipeline_options.h"

namespace paceline {

namespace pipeline {
class MadeStages;
}

// The last step of this rank.
struct PipelineReport {
  std::int64_t step = 0;
  double idle_seconds = 0;     // it waited for messages of other stages
  double compute_seconds = 0;  // forwards and backwards
  int live_activations = 0;    // at most so many micro-batches were between forward and backward
  int versions = 1;            // of the weights, which the stage kept at most until now
  // Steps so far that all stages left out (DataParallelOptions::non_finite, or an overflow of fp16).
  std::int64_t skipped = 0;
  double grad_norm = 0;  // of the whole model before it was clipped; 0: max_grad_norm is not set
};

// THREAD: the one that makes it. The mesh must live longer.
class Pipeline {
 public:
  // Makes this rank's stages. Every rank of the mesh calls it with the same layers and options; it
  // blocks. THROWS Error (misuse): more stages than layers; a partition with gaps or overlaps; a
  // schedule that does not go with the numbers of ranks and micro-batches; a loss or an optimizer
  // is missing; entries of tensor_plan that match no layer of any stage; options that do not go
  // with a pipeline.
  Pipeline(const Layers& layers, DeviceMesh& mesh, PipelineOptions options);
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // Trains on a batch, whose first dimension counts samples, and returns the mean loss of the
  // global batch, on every rank. Ranks of the first stage read `data`, those of the last one
  // `target`; the others may hand in undefined tensors. `prepare` may set options of each
  // optimizer, such as the rate, before it steps. THROWS Error: misuse, on all stages: a batch of
  // fewer samples than micro-batches; what ended the communication, by stage and micro-batch.
  //
  // Under pipedream and pipedream_2bw it returns the newest loss that is back at the first stage:
  // that of the batch p - 1 calls before on p stages, of the one before with pipedream_2bw; NaN
  // until there is one. Where a stage's ranks take turns, each returns that of its own newest
  // batch. What `prepare` sets is for the update by this batch, on all stages, though it is called
  // at once. A batch of other shapes than the one before drains the pipeline first.
  double step(const at::Tensor& data, const at::Tensor& target, PrepareOptimizer prepare = {});
  double step(const Tensors& data, const at::Tensor& target, PrepareOptimizer prepare = {});

  // The output of the model for these data, on every rank, without gradients. All ranks call it.
  at::Tensor forward(const at::Tensor& data);

  // The number of samples in this rank's batch, where replicas have batches of different sizes
  // (DataParallel::weight).
  void weight(double samples);
  // Waits until nothing is under way, and compares replicas. All ranks call it. A pipeline without
  // a flush computes what is in flight, as it also does in forward(), state() and
  // parameters_sha256(), and fills anew with the next step.
  void finish();

  void train(bool on = true);  // the mode of all modules; a new one is in training
  void eval() { train(false); }

  // All parameters and buffers of the whole model by name, parameters first: copies, on every rank.
  // All ranks call it, between steps.
  torch::OrderedDict<std::string, at::Tensor> state();
  // SHA-256 over the parameters of the whole model in the order of the layers, on every rank. All
  // ranks call it.
  std::string parameters_sha256();

  // Whether this rank hands data to step(), or a target: it has the first stage, or the last one.
  bool reads_data() const;
  bool reads_target() const;

  int stages() const;                            // of the whole pipeline
  const std::vector<int>& first_layers() const;  // by stage
  int micro_batches() const;                     // of a step, also if they were chosen
  // The recomputation of this rank's stages, also if it was chosen: "none", "full", "every:K".
  const std::string& recompute() const;
  const PipelineReport& last_step() const;
  // This rank's activations and gradients over the cuts, in the steps so far. It has no messages of
  // shapes, evaluation and losses, and none among replicas.
  Traffic traffic() const;

  // The stages of this rank, as modules whose parameters have the names of the whole model.
  std::vector<torch::nn::Module*> modules() const;
  // For other rooms of Paceline, such as checkpoint.
  pipeline::MadeStages& made_stages();
  // Waits for an operation of all ranks, and tells a failure or a long wait by the micro-batch and
  // the stage before which this rank stands.
  void wait_between_steps(const Work& work) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline
