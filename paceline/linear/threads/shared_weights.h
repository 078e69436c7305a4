// Views of the weights in which steps of stochastic gradient descent read and add, alone or beside
// other threads that do the same without locks.
//
// Accesses of FetchAddWeights and RacyWeights are relaxed atomic ones (std::atomic_ref), so that
// races are defined: a thread reads some value that another has written, never half of it. With one
// thread all three views give the same bits. The memory outlives the view.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>

namespace paceline::linear {

// No other thread reads or writes the elements that this one uses.
struct OwnWeights {
  std::span<double> values;

  double load(std::size_t j) const { return values[j]; }
  void add(std::size_t j, double delta) const { values[j] += delta; }
};

// add() loses nothing, whatever other threads add at the same time.
struct FetchAddWeights {
  std::span<double> values;

  double load(std::size_t j) const {
    return std::atomic_ref(values[j]).load(std::memory_order_relaxed);
  }
  void add(std::size_t j, double delta) const {
    std::atomic_ref(values[j]).fetch_add(delta, std::memory_order_relaxed);
  }
};

// add() is a load and a store, which cost less: what other threads add between them is lost.
struct RacyWeights {
  std::span<double> values;

  double load(std::size_t j) const {
    return std::atomic_ref(values[j]).load(std::memory_order_relaxed);
  }
  void add(std::size_t j, double delta) const {
    std::atomic_ref(values[j]).store(load(j) + delta, std::memory_order_relaxed);
  }
};

}  // namespace paceline::linear
