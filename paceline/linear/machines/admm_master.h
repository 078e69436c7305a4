// AdmmMaster: when asynchronous consensus ADMM makes new common weights z, and out of what.
//
// It keeps what each worker brought last (x + u; zeros before that), and waits until the workers
// that have brought something new pass the partial barrier (partial_barrier.h). Then z follows from
// what all have brought, old or new, and goes to those alone who have brought something new.
// Zhang, Kwok, Asynchronous Distributed ADMM for Consensus Optimization, ICML 2014.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "paceline/core/coordination/partial_barrier.h"

namespace paceline::linear {

// A worker's x + u is at most delay - 1 updates old.
using AdmmPace = coordination::PartialBarrierPace;

// A value, but for `consensus`. THREAD: one.
class AdmmMaster {
 public:
  // Replaces the sum of all workers' x + u by z (consensus_of).
  using Consensus = std::function<void(std::span<double> sum)>;

  // z begins with zeros.
  AdmmMaster(int workers, std::size_t width, const AdmmPace& pace, Consensus consensus);

  // REQUIRES: the worker waits for z, and the vector is as wide as z.
  void receive(int worker, std::vector<double> contribution);
  bool can_update() const { return barrier_.can_pass(); }
  // The workers without whose contributions it cannot update.
  std::vector<int> awaited() const { return barrier_.awaited(); }
  // Makes the next z; returns the workers to which it goes. The sum is taken by the balanced tree
  // in the order of the workers, so that with a barrier of all workers z has the bits of ADMM with
  // an all_reduce. REQUIRES: can_update().
  std::vector<int> update();

  const std::vector<double>& common() const { return common_; }  // z
  std::size_t width() const { return common_.size(); }
  std::int64_t updates() const { return updates_; }
  // Tells of each worker how many updates have gone by since the one that its x + u was new in.
  std::vector<int> ages() const;

 private:
  const Consensus consensus_;
  std::vector<std::vector<double>> contributions_;  // by worker
  coordination::PartialBarrier barrier_;
  std::vector<double> common_;
  std::int64_t updates_ = 0;
};

}  // namespace paceline::linear
