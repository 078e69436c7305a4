// The layers of a model that compute over the ranks of its training: SyncBatchNorm over the batches
// of all replicas, and Dropout, whose masks follow the training's steps. They let go of it when
// this ends.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/mesh/mesh.h"
#include "paceline/torch/norm/norm.h"
#include "paceline/torch/replica/replicas.h"
#include "paceline/torch/tensor/tensor.h"

namespace paceline::parallel {

class LayersOverRanks {
 public:
  // `replicas` outlive this. `mesh`: says which rows of the batch this rank has; null: each rank of
  // the group is a replica. Collective.
  LayersOverRanks(torch::nn::Module& model, replica::Replicas& replicas, DeviceMesh* mesh,
                  std::uint64_t dropout_seed);
  ~LayersOverRanks();
  LayersOverRanks(const LayersOverRanks&) = delete;
  LayersOverRanks& operator=(const LayersOverRanks&) = delete;

  // The weight of this rank's batch.
  void weigh(double weight) { ranks_->weight = weight; }
  // The replicas are bound to another group. Collective.
  void rebind();
  // THROWS Error (misuse): layers mix ranks, which the present synchrony does not let wait for each
  // other.
  void require_lockstep() const;

 private:
  void compute_over_ranks(const std::vector<NamedSyncBatchNorm>& norms);
  void give_norms_a_group();
  void place_in_batch(const Communicator& replicas);

  replica::Replicas& replicas_;
  const std::shared_ptr<tensor::DropoutClock> dropouts_ = std::make_shared<tensor::DropoutClock>();
  std::unique_ptr<Communicator> norms_;  // of the SyncBatchNorms; none: one rank, or no such layer
  const std::shared_ptr<BatchRanks> ranks_ = std::make_shared<BatchRanks>();
};

}  // namespace paceline::parallel
