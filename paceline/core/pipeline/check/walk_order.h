// Walks through an order as its inputs allow, each rank in the order of its own list.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "paceline/core/pipeline/order/order.h"

namespace paceline::pipeline {

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
