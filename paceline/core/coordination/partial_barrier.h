// PartialBarrier: when workers that do not wait for all others go on together, as in asynchronous
// consensus ADMM.
//
// It is passed when at least `barrier` workers have arrived since they passed it last, and nobody
// would miss it for the `delay`-th time in a row. Those alone who have arrived pass it.
// Zhang, Kwok, Asynchronous Distributed ADMM for Consensus Optimization, ICML 2014.
#pragma once

#include <map>
#include <vector>

namespace paceline::coordination {

struct PartialBarrierPace {
  int barrier = 2;  // workers that pass at a time; more than there are means all
  int delay = 5;    // a worker passes once in so many times at least
  bool operator==(const PartialBarrierPace&) const = default;
};

// A value.
class PartialBarrier {
 public:
  explicit PartialBarrier(const PartialBarrierPace& pace) : pace_(pace) {}

  void join(int worker);
  void arrive(int worker);  // REQUIRES: it has joined.
  bool can_pass() const;
  // Returns those who pass, ascending. REQUIRES: can_pass().
  std::vector<int> pass();
  // How many times the barrier was passed since the worker did. REQUIRES: it has joined.
  int age_of(int worker) const { return workers_.at(worker).age; }

 private:
  struct Worker {
    bool has_arrived = false;
    int age = 0;
  };

  PartialBarrierPace pace_;
  std::map<int, Worker> workers_;
};

}  // namespace paceline::coordination
