// LocalReplica: a local method works on it, one replica and its peers.
#pragma once

#include <ATen/core/Tensor.h>

#include "paceline/torch/strategy/local/flat_model.h"
#include "paceline/torch/strategy/local/weight_ledger.h"

namespace paceline::strategy {

// THREAD: one. All ranks call collective methods in the same order.
struct LocalReplica {
  LocalReplica(const replica::ModelParts& parts, Communicator& ranks, bool with_buffers)
      : group(ranks), model(parts, with_buffers, ranks), ledger(ranks, parts.training) {}

  bool alone() const { return group.size() == 1; }
  std::size_t bytes_of(std::int64_t elements) const {
    return static_cast<std::size_t>(elements) * c10::elementSize(model.type());
  }

  // Collective: the vector becomes the mean over all ranks, weighted by their samples since the
  // last exchange. The bits are the same on all ranks.
  void average(const at::Tensor& vector);
  // Collective: the same, in which all ranks count alike.
  void average_plainly(const at::Tensor& vector);
  // Collective: the square root of the mean of these squares over all ranks.
  double distance(double square);
  // Collective: whether it is so on any rank.
  bool any(bool on_this_rank);
  // Collective: the model becomes the mean of all replicas, weighted by their samples; it is that
  // already if no rank has one. Counts take rank 0's values.
  void take_mean();
  // Collective: the model becomes the mean of all replicas, which count alike.
  void take_plain_mean();
  // Collective: buffers that are no floating numbers become rank 0's.
  void take_counts();

  Communicator& group;
  FlatModel model;
  WeightLedger ledger;
};

}  // namespace paceline::strategy
