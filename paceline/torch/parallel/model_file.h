// Writes a model as torch::save() does, so that the file is there as a whole or not at all.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

#include "paceline/torch/replica/replica.h"

namespace paceline::parallel {

// The model that replicas train, as one process would have it: whole tensors of what all replicas
// stand for, in the types of the model that the program wrote.
struct WholeTensor {
  std::string name;
  at::Tensor tensor;  // of the model
  // The value it stands for: float32 where the precision o2 has it in 16 bits, of all ranks' parts
  // where ranks share a layer. It may lie in the same memory.
  at::Tensor value;
};

// While it lives, the model holds the consensus, whole, and `tensors()` are its parameters and
// buffers, each once. Collective, between steps; also while consensus() or gathered() is in force.
class WholeState {
 public:
  explicit WholeState(replica::Replicas& replicas);
  const std::vector<WholeTensor>& tensors() const { return tensors_; }
  // The value of a tensor of the model; undefined: it is another one.
  at::Tensor value_of(const at::Tensor& tensor) const;
  // The first of all ranks, also of those that share layers.
  bool is_first_rank() const;
  // Gives the text of that rank to all ranks. Collective.
  std::string told_by_first_rank(std::string text) const;

 private:
  replica::Replicas& replicas_;
  std::shared_ptr<void> held_;
  std::vector<WholeTensor> tensors_;
};

// `torch::load(model, file)` reads it, also without Paceline. `state` has the values of the model's
// tensors. THROWS Error (io), with the path and the system's reason.
void write_model_file(const torch::nn::Module& model, const WholeState& state,
                      const std::string& file);

}  // namespace paceline::parallel
