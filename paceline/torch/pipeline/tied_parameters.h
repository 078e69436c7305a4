// TiedParameters: parameters that are one in the model, and stand in layers of different stages.
// Each stage has a copy; both have the sum of the two gradients, so they stay equal.
// Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM, SC 2021 (embedding and head).
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/torch/pipeline/stages_of_rank.h"

namespace paceline::pipeline {

// THREAD: one. All ranks of `stages` make one, and the same calls.
class TiedParameters {
 public:
  using Names = std::vector<std::pair<std::string, std::string>>;

  // The second one of each pair takes the values of the first one. `chunks` and the group outlive
  // this; their DataParallels are made later. It blocks. THROWS Error (misuse): no layer has a
  // parameter of this name; the two have other shapes.
  TiedParameters(const Names& names, std::vector<Chunk>& chunks, Communicator& stages);

  bool empty() const { return ties_.empty(); }
  // Both have the sum, after the gradients of all replicas were averaged. It blocks.
  void sum_gradients();
  // The part of the squared norm of this rank's gradients that another copy counts too.
  double squares_of_copies() const;

 private:
  struct End {
    std::string name;
    int rank = -1;              // of the group: which has the parameter
    Chunk* chunk = nullptr;     // here; null: another rank's
    at::Tensor parameter = {};  // of the module
    at::Tensor gradient() const;
  };
  struct Tie {
    End first, second;
  };

  End end_of(const std::string& name, std::vector<Chunk>& chunks);
  void find_ranks();
  void equalise(Tie& tie);

  Communicator& stages_;
  std::vector<Tie> ties_;
};

}  // namespace paceline::pipeline
