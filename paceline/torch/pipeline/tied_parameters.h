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
  // this; their DataParallels are made later, and divide parameters or do not. It blocks. THROWS
  // Error (misuse): no layer has a parameter of this name; it is frozen, or in two ties; it shall be
  // divided and does not lie row after row; the two have other shapes.
  TiedParameters(const Names& names, std::vector<Chunk>& chunks, Communicator& stages,
                 bool are_divided);

  bool empty() const { return ties_.empty(); }
  // Both have the sum, after the gradients of all replicas were averaged. Where the replicas divide
  // gradients (zero_stage) each rank gets its piece of it. It blocks. COST: a message as long as
  // the gradient between the two stages, and one more among the replicas that divide it.
  void sum_gradients();
  // The part of the squared norm of the stages of this rank that another copy counts too. It
  // blocks. REQUIRES: sum_gradients() returned in this step.
  double squares_of_copies() const;

  // The name by which a checkpoint holds a parameter: of tied ones the first one's, which a program
  // without stages has too.
  std::string saved_name(const std::string& name) const;
  // The other one's, of tied ones; else empty.
  std::string other_name(const std::string& name) const;
  // Whether the first one of its tie is saved for both. `tensor`: a parameter of a stage, or what an
  // optimizer steps for it.
  bool is_copy(const at::Tensor& tensor) const;

 private:
  struct End {
    std::string name;
    int rank = -1;              // of the group: which has the parameter
    Chunk* chunk = nullptr;     // here; null: another rank's
    at::Tensor parameter = {};  // of the module

    // All of it; undefined: another rank's. Collective where replicas divide it.
    at::Tensor gradient() const;
    void set_gradient(const at::Tensor& whole) const;
    bool has(const at::Tensor& tensor) const;
  };
  struct Tie {
    End first, second;
  };

  End end_of(const std::string& name, std::vector<Chunk>& chunks);
  void find_ranks();
  void require_trained(bool are_divided);
  void equalise(Tie& tie);

  Communicator& stages_;
  std::vector<Tie> ties_;
};

}  // namespace paceline::pipeline
