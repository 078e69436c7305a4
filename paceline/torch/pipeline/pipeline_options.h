// The options of a Pipeline (pipeline_training.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "paceline/core/pipeline/pipeline.h"
#include "paceline/torch/replica/data_parallel_options.h"
#include "paceline/torch/tensor/parallelize.h"

namespace paceline {

// PipelineOptions::micro_batches: the number that is expected to be the quickest.
inline constexpr int automatic = -1;

// The times of layers are measured with it: a batch as Pipeline::step() takes it, of any values.
struct SampleBatch {
  std::vector<at::Tensor> data = {};
  at::Tensor target = {};  // undefined: the loss is not timed
};

struct PipelineOptions {
  // Says which stage computes what after what (docs/pipelines/): "sequential", "gpipe", "1f1b",
  // "interleaved:chunks=2", "zero_bubble", "pipedream", "pipedream:sync=vertical",
  // "pipedream_2bw". The last three step by gradients of older weights.
  std::string schedule = "1f1b";
  // A batch is cut into so many parts, whose lengths differ by one at most. 1 under pipedream.
  // `automatic`: micro-batches of four sizes are timed, and the divisor of the sample's batch is
  // taken with which a step is forecast to be quickest; rank 0 says why on stderr.
  int micro_batches = 1;
  // The mean loss over the samples of a micro-batch, of what the last layer returns. Called where
  // the last stage is.
  std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)> loss = {};
  // Makes the optimizer of some of the model's parameters, the same on all ranks: each stage has
  // one. Or set `training.optimizer`, which makes one for each parameter.
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor> parameters)>
      optimizer = {};
  // The layers of each stage: "0-3,4-6" says that the layers 0 to 3 make the first one. Empty: as
  // many on each as on the others, to one. "automatic": so that the slowest stage takes the least
  // time, as rank 0 times the layers. Anything else is the file of a profile (`paceline profile`)
  // of this model, which rank 0 reads, and by whose times layers are cut.
  std::string partition = {};
  // Activations that are computed again in the backward pass (docs/pipelines/recomputation.md):
  // "none"; "full", those within each layer; "every:K", those within segments of K layers;
  // "auto", those of the segments with the least peak of memory on each stage, by the bytes of the
  // profile that `partition` names, or as rank 0 measures them.
  std::string recompute = "none";
  // On rank 0, for choices that need the times of layers: "automatic", `automatic`, "auto".
  SampleBatch sample = {};
  // Splits layers among the ranks of tp, by their names in the whole model.
  TensorPlan tensor_plan = {};
  // How the replicas of each stage are kept in step, and what holds for one process as well:
  // zero_stage, precision, max_grad_norm (of the whole model), dropout_seed, messages, checks.
  DataParallelOptions training = {};
};

}  // namespace paceline

namespace paceline::pipeline {

// THROWS Error (misuse), by name, with the remedy: an option that does not go with the schedule.
// REQUIRES: the schedule is not synchronous.
void require_fitting(const ScheduleChoice& choice, const PipelineOptions& options);

}  // namespace paceline::pipeline
