// A limit to the memory of this process, and what to say when it is reached.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <exception>
#include <string>

#include "paceline/torch/tensor/tensor.h"

// Lets this process take so many bytes beside what it has taken so far. THROWS paceline::Error
// (io).
void limit_memory(std::int64_t bytes);

// Whether memory ended, by what libtorch or the library threw.
bool is_out_of_memory(const std::exception& error);

// The memory that a rank needs to train a model, by the number of ranks that share its layers.
struct TrainingMemory {
  // `copies`: of each parameter: itself, its gradient, and what the optimizer keeps.
  TrainingMemory(const torch::nn::Module& model, const paceline::TensorPlan& plan, int copies);

  std::int64_t bytes_of_rank(int ranks) const;
  // Tells what happened on this rank, of `ranks` that share layers, and a layout that would do.
  std::string text(int ranks, std::int64_t limit) const;

 private:
  std::int64_t split_ = 0, whole_ = 0;  // bytes of parameters
  int copies_;
};
