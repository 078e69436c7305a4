// PartialBarrier: when workers that do not wait for all others go on together, as in asynchronous
// consensus ADMM.
//
// It is passed when at least `barrier` workers have arrived since they passed it last, and nobody
// would miss it for the `delay`-th time in a row. Those alone who have arrived pass it. Nothing waits
// for a worker that rests.
// Zhang, Kwok, Asynchronous Distributed ADMM for Consensus Optimization, ICML 2014.
#pragma once

#include <map>
#include <utility>
#include <vector>

namespace paceline::coordination {

struct PartialBarrierPace {
  int barrier = 2;  // workers that pass at a time; more than there are means all
  int delay = 5;    // of so many passings in a row each worker takes part in one at least
  bool operator==(const PartialBarrierPace&) const = default;
};

// A value.
class PartialBarrier {
 public:
  explicit PartialBarrier(const PartialBarrierPace& pace) : pace_(pace) {}

  void join(int worker);
  void leave(int worker);
  // REQUIRES, here and below: the worker has joined.
  void arrive(int worker);
  bool has_arrived(int worker) const { return workers_.at(worker).has_arrived; }
  void rest(int worker);
  void wake();  // nobody rests, and all have passed at once
  bool can_pass() const;
  // Returns those who pass, ascending. REQUIRES: can_pass().
  std::vector<int> pass();
  // These of those who have arrived pass, as was decided elsewhere.
  void pass(const std::vector<int>& those);
  std::vector<int> arrived() const;  // ascending
  // The workers of whom one or more must arrive before it can be passed.
  std::vector<int> awaited() const;
  // How many times the barrier was passed since the worker did.
  int age_of(int worker) const { return workers_.at(worker).age; }

  // A worker as it stands, for who must carry it elsewhere.
  struct Worker {
    bool has_arrived = false;
    bool rests = false;
    int age = 0;
    bool operator==(const Worker&) const = default;
  };
  const std::map<int, Worker>& workers() const { return workers_; }
  void set_workers(std::map<int, Worker> workers) { workers_ = std::move(workers); }

 private:
  bool is_due(const Worker& worker) const;
  bool are_enough() const;

  PartialBarrierPace pace_;
  std::map<int, Worker> workers_;
};

}  // namespace paceline::coordination
