// The options of a Pipeline (pipeline_training.h).
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "paceline/torch/replica/data_parallel_options.h"
#include "paceline/torch/tensor/parallelize.h"

namespace paceline {

struct PipelineOptions {
  // Says which stage computes what after what (docs/pipelines/): "sequential", "gpipe", "1f1b",
  // "interleaved:chunks=2", "zero_bubble", "pipedream", "pipedream:sync=vertical",
  // "pipedream_2bw". The last three step by gradients of older weights.
  std::string schedule = "1f1b";
  // A batch is cut into so many parts, whose lengths differ by one at most. 1 under pipedream.
  int micro_batches = 1;
  // The mean loss over the samples of a micro-batch, of what the last layer returns. Called where
  // the last stage is.
  std::function<at::Tensor(const at::Tensor& output, const at::Tensor& target)> loss = {};
  // Makes the optimizer of some of the model's parameters, the same on all ranks: each stage has
  // one. Or set `training.optimizer`, which makes one for each parameter.
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor> parameters)>
      optimizer = {};
  // The layers of each stage: "0-3,4-6" says that the layers 0 to 3 make the first one. Empty: as
  // many on each as on the others, to one.
  std::string partition = {};
  // Activations that are computed again in the backward pass (docs/pipelines/recomputation.md):
  // "none"; "full", those within each layer; "every:K", those within segments of K layers.
  std::string recompute = "none";
  // Splits layers among the ranks of tp, by their names in the whole model.
  TensorPlan tensor_plan = {};
  // How the replicas of each stage are kept in step, and what holds for one process as well:
  // zero_stage, precision, max_grad_norm (of the whole model), dropout_seed, messages, checks.
  DataParallelOptions training = {};
};

}  // namespace paceline
