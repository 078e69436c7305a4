// Proves that an order can run: every operation stands once, on the rank of its stage, and every
// rank gets what it waits for.
//
// A rank's sends never hold up its next computation, and its receives are posted ahead, so an order
// ends if every rank may take its list step by step as inputs allow; that a send ends only when its
// receive is posted changes nothing. (With sends that hold up a rank, gpipe and sequential alone
// would end.)
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/pipeline/order/order.h"

namespace paceline::pipeline {

// An operation that cannot run.
struct Blocked {
  int rank = 0;              // in whose list it stands
  std::size_t position = 0;  // there
  Operation operation;
  std::optional<Operation> waits_for = {};  // the input that does not come; empty: see `what`
  std::string what;                         // the same in words
};
// The first operation that cannot run; empty: all can. If several ranks stand still, it is the one
// for which, directly or by others, the lowest of them waits; if they wait for each other in a
// ring, it is the ring's lowest rank's.
std::optional<Blocked> first_blocked(const Order& order);

// The largest number of activations that are live at a time, for each rank. One is live from its
// forward to the operation that needs it last, which is the weight gradient where the backward is
// split. The unit is the activation of one micro-batch in one stage.
std::vector<int> peak_live(const Order& order);

// A failure (misuse) names the first operation that cannot run and what it waits for, or one that
// is missing.
Result<> check_order(const Order& order);

// --- walks through an order as its inputs allow, each rank in the order of its own list ---

// The operations of an order that have run.
class Ran {
 public:
  explicit Ran(const Order& order);
  bool knows(const Operation& operation) const;  // it is one of the order's operations
  bool has(const Operation& operation) const { return ran_[place_of(operation)]; }
  void add(const Operation& operation) { ran_[place_of(operation)] = true; }
  // The place of an operation in a table of as many as size(). REQUIRES: knows(operation).
  std::size_t place_of(const Operation& operation) const;
  std::size_t size() const { return ran_.size(); }

 private:
  int stages_, micro_batches_, kinds_;
  std::vector<bool> ran_;
};

struct Walk {
  Ran ran;
  std::vector<std::size_t> reached;  // by rank: the first operation that did not run
  bool is_complete = false;          // no rank stands still
};
// `ran` is called for each operation when all of its inputs have run, in an order that they allow.
// An operation that has run, stands on another rank than its stage, or is none of the order's never
// runs.
Walk walk(const Order& order,
          const std::function<void(int rank, std::size_t position, const Operation&)>& ran);

// Whether the operation may stand on this rank.
bool belongs(const Order& order, int rank, const Operation& operation);

}  // namespace paceline::pipeline
