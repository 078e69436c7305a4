// While it lives, a model holds the consensus of all replicas, whole.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "paceline/torch/replica/replicas.h"

namespace paceline::replica {

// It ends when the replicas do. Collective, between steps.
class Consensus {
 public:
  // THROWS Error (misuse): in the middle of a step, or one is in force.
  explicit Consensus(Replicas& replicas);
  ~Consensus() { end(); }
  Consensus(const Consensus&) = delete;
  Consensus& operator=(const Consensus&) = delete;

  // The replica does not come back.
  void stay() { tensors_.clear(); }
  // Gives the replica back, once.
  void end();

 private:
  Replicas* replicas_;  // null: it has ended
  std::vector<at::Tensor> tensors_, own_values_;
  std::shared_ptr<void> gathered_;
};

}  // namespace paceline::replica
