// Takes the model alone out of a checkpoint: to evaluate, to fine-tune, to begin another training.
#pragma once

#include <torch/nn/module.h>

#include <concepts>
#include <cstdint>
#include <string>
#include <vector>

#include "paceline/torch/parallel/data_parallel.h"
#include "paceline/torch/pipeline/pipeline.h"

namespace paceline {

struct LoadWeightsOptions {
  // Refuses, before a tensor is written, what LoadedWeights would tell to be missing, unexpected or
  // of another shape. Without it these stay as they are.
  bool strict = true;
  std::string item = "model";  // the name that the model has in the checkpoint
};

struct LoadedWeights {
  std::string path;  // of the step's directory
  std::uint64_t step = 0;
  std::vector<std::string> loaded;      // names of parameters and buffers
  std::vector<std::string> missing;     // the model has it, and the checkpoint does not
  std::vector<std::string> unexpected;  // the checkpoint has it, and the model does not
  // "fc.weight: f32[10, 8] in the checkpoint, f32[5, 8] here".
  std::vector<std::string> other_shape;
  // "12 tensors loaded from runs/a/step-00000400; missing: ...", on one line.
  std::string text() const;
};

// `directory`: of a run, of which the newest step is taken whose every byte verifies, or of a step.
// Needs no job: each process that calls it reads for itself. A floating type is converted to that
// of the model; masters of a training with the precision o2 are taken rather than what was rounded
// to 16 bits, and of replicas that differed their mean. THROWS Error: misuse, what
// options.strict refuses, no such item, or parameters that zero_stage 3 keeps on other ranks; io,
// no step is whole, or it cannot be read.
LoadedWeights load_weights(torch::nn::Module& model, const std::string& directory,
                           const LoadWeightsOptions& options = {});
// The same of the model of a DataParallel, whatever its zero_stage and precision: segments and
// masters take the values. All ranks call it, between steps. THROWS Error, on all ranks alike, as
// above; misuse, it was made without a model.
LoadedWeights load_weights(DataParallel& parallel, const std::string& directory,
                           const LoadWeightsOptions& options = {});
// The whole model of a checkpoint into the stages of a pipeline, each rank its own; the report
// tells of all of them. All ranks call it, between steps; what is in flight is computed first.
// THROWS Error, on all ranks alike, as above.
LoadedWeights load_weights(Pipeline& pipeline, const std::string& directory,
                           const LoadWeightsOptions& options = {});
template <typename Holder>
requires requires(Holder& holder) {
  { *holder } -> std::convertible_to<torch::nn::Module&>;
}
LoadedWeights load_weights(Holder& holder, const std::string& directory,
                           const LoadWeightsOptions& options = {}) {
  return load_weights(static_cast<torch::nn::Module&>(*holder), directory, options);
}

}  // namespace paceline
