// One thing that a program saves under a name: how it becomes an item of a checkpoint, and is made
// again from one.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/schedulers/lr_scheduler.h>
#include <torch/optim/schedulers/reduce_on_plateau_scheduler.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "paceline/core/server/server.h"
#include "paceline/torch/checkpointing/checkpoint_fields.h"
#include "paceline/torch/checkpointing/saved_item.h"
#include "paceline/torch/data/data.h"
#include "paceline/torch/parallel/parallel.h"
#include "paceline/torch/pipeline/made_stages.h"
#include "paceline/torch/replica/replica.h"

namespace paceline::checkpointing {

// The names by which an optimizer's parameters are saved: those that they have in a model. Where
// ranks divide parameters, an optimizer has pieces of them.
class ParameterNames {
 public:
  void add(const at::Tensor& tensor, std::string name) {
    names_.emplace(tensor.unsafeGetTensorImpl(), std::move(name));
  }
  void add_piece(const at::Tensor& piece, const at::Tensor& parameter) {
    parameters_.emplace(piece.unsafeGetTensorImpl(), parameter);
  }
  // Other ranks have all pieces of the parameter.
  void add_elsewhere(const at::Tensor& parameter) { elsewhere_.push_back(parameter); }

  // Other stages of a pipeline have it.
  void add_elsewhere(std::string name) { other_stages_.push_back(std::move(name)); }

  // Empty: it is in no model.
  const std::string& of(const at::Tensor& tensor) const {
    static const std::string none;
    const auto piece = parameters_.find(tensor.unsafeGetTensorImpl());
    const at::Tensor& parameter = piece == parameters_.end() ? tensor : piece->second;
    const auto found = names_.find(parameter.unsafeGetTensorImpl());
    return found == names_.end() ? none : found->second;
  }
  bool has_pieces() const {
    return !parameters_.empty() || !elsewhere_.empty() || !other_stages_.empty();
  }
  std::vector<std::string> elsewhere() const {
    std::vector<std::string> names = other_stages_;
    for (const at::Tensor& parameter : elsewhere_) names.push_back(of(parameter));
    return names;
  }

 private:
  std::unordered_map<const c10::TensorImpl*, std::string> names_;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> parameters_;  // by piece
  std::vector<at::Tensor> elsewhere_;
  std::vector<std::string> other_stages_;
};

// All ranks have the same parts, and call them in the same order. THREAD: the training's.
class CheckpointPart {
 public:
  virtual ~CheckpointPart() = default;
  // Called as soon as it is added. THROWS Error (misuse), by name: no checkpoint can hold it.
  virtual void require_savable(const std::string& /*item*/) {}
  // The same, once all parts have been added.
  virtual void require_complete() {}
  // The program has ended a step. THROWS Error (misuse): the part does not follow it.
  virtual void step_ended() {}
  // Between steps. The tensors are views, good until the next step.
  virtual ItemState state() = 0;
  // Changes nothing. THROWS Error (misuse): it names the first thing that differs.
  virtual void check(const SavedItem& saved) = 0;
  // REQUIRES: check() returned. THROWS Error: io; mismatch, the ranks differ in it.
  virtual void load(const SavedItem& saved) = 0;
};

using PartPtr = std::unique_ptr<CheckpointPart>;

// torch's streams of random numbers; every checkpoint has them.
inline constexpr const char* kRandomItem = "random";

// A part under the name of its item.
struct NamedPart {
  std::string name;
  PartPtr part;
  enum class Kind : std::uint8_t { model, random, other } kind = Kind::other;
  bool is_loaded_first = false;
};

// `how_held` is asked at each save and load.
//
// Parameters and buffers. A tensor under several names is saved once, under the first of them in
// alphabetical order, as safetensors.torch.save_model does.
PartPtr model_part(const torch::nn::Module& model, HowHeld how_held);
// The stages that this rank has of a model; `elsewhere`: the names of other ranks' tensors.
PartPtr model_part(std::vector<const torch::nn::Module*> stages, HowHeld how_held,
                   std::vector<std::string> elsewhere);
// The optimizers are asked for at each save and load; several of one type count as one. `ranks` are
// those that save together; they outlive the part, and so do the names.
using OptimizerSource = std::function<std::vector<torch::optim::Optimizer*>()>;
PartPtr optimizer_part(OptimizerSource optimizers, const ParameterNames& names, HowHeld how_held,
                       Communicator& ranks);
// The state that a DataParallel keeps beside model and optimizers: residuals, plan, weights.
PartPtr replicas_part(DataParallel& data_parallel);
// The same of a pipeline, whose stages have a DataParallel each; its steps, and masters.
PartPtr pipeline_part(pipeline::MadeStages& stages, HowHeld how_held);
// torch's streams of random numbers of each rank: on the CPU, and on the devices that hold models.
using DeviceSource = std::function<std::vector<at::Device>()>;  // asked at each save and load
PartPtr random_part(DeviceSource devices = {});
// The place of a sampler in its data.
PartPtr data_part(data::DistributedSampler& sampler);
// A schedule of learning rates: its counts, and its rates.
PartPtr scheduler_part(torch::optim::LRScheduler& schedule);
PartPtr scheduler_part(torch::optim::ReduceLROnPlateauScheduler& schedule);
// The rows of a sparse table on servers.
PartPtr sparse_part(server::SparseTable& table);
// Values of the program's own.
PartPtr fields_part(std::function<void(CheckpointFields&)> visit);

}  // namespace paceline::checkpointing
