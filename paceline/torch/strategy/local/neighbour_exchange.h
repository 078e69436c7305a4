// Sends a vector to the neighbours of a mixing graph, and receives theirs, in the background.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "paceline/core/collective/collective.h"
#include "paceline/core/collective/mixing/mixing_graph.h"
#include "paceline/torch/strategy/local/local_replica.h"

namespace paceline::strategy {

// Neighbours alone wait for each other. Messages travel in a group of their own, so that they meet
// no messages of the user's. THREAD: one. THROWS Error, from every call: what ended the
// communication.
class NeighbourExchange {
 public:
  // Collective. `elements`: of each vector. THROWS Error (misuse): the graph has no such number of
  // ranks.
  NeighbourExchange(const LocalReplica& replica, collective::MixingGraph graph,
                    std::int64_t elements);
  ~NeighbourExchange();  // waits for what is under way: a group must not end before
  NeighbourExchange(const NeighbourExchange&) = delete;
  NeighbourExchange& operator=(const NeighbourExchange&) = delete;

  // The vector stays as it is until wait(). REQUIRES: none is under way.
  void start(const at::Tensor& vector, std::int64_t round);
  bool is_under_way() const { return is_under_way_; }
  // Waits for what start() began; nothing to do if it was waited for.
  void wait();

  // This rank's row of the last round, and the vectors of row().from, in its order.
  const collective::MixingRow& row() const { return *row_; }
  const collective::MixingRow& row_of(std::int64_t round) const {
    return rows_[static_cast<std::size_t>(round) % rows_.size()];
  }
  const at::Tensor& received(std::size_t index) const { return received_[index]; }
  // own * vector + the sum of weight * received vector, in rank order, into `into`, which may be
  // `vector` itself.
  void mix(const at::Tensor& vector, const at::Tensor& into) const;
  // The change that mixing makes: mix() minus the vector, in as many passes.
  void mix_change(const at::Tensor& vector, const at::Tensor& into) const;

 private:
  void mix(double own, const at::Tensor& vector, const at::Tensor& into) const;

  const std::unique_ptr<Communicator> group_;
  std::vector<collective::MixingRow> rows_;  // by round of a period
  const collective::MixingRow* row_ = nullptr;
  std::vector<at::Tensor> received_;
  at::Tensor sent_;
  Work work_;
  bool is_under_way_ = false;
};

}  // namespace paceline::strategy
