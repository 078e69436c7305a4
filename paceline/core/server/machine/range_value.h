// RangeValue: what a range of a table holds, as it follows from what was applied in which order:
// the values, the rule's state, and the clocks of the workers.
//
// It decides what pushes do and when they may be seen; range_machine.h decides in which order they
// are taken. Sums are taken by the balanced tree in the order of the workers, then multiplied by
// one over the weights' sum: so bsp has the bits of an optimizer behind a reproducible all_reduce.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "paceline/core/server/table/table_spec.h"

namespace paceline::server {

// A worker's update of a range.
struct Push {
  int worker = 0;
  std::uint64_t sequence = 0;
  std::int64_t stamp = 0;
  double weight = 1;
  std::vector<double> settings = {};   // of the rule
  std::vector<std::byte> values = {};  // the elements of the range
};

// A value. It reads the shape, which must outlive it and its copies.
class RangeValue {
 public:
  RangeValue(const TableShape& shape, std::size_t range);

  // REQUIRES: as many bytes as the range has.
  void assign(Bytes values);

  // --- workers ---

  // A newcomer's clock begins with the range's, so that nothing goes on without it.
  void join(int worker) { clocks_.emplace(worker, clock()); }
  void raise(int worker, std::int64_t clock);  // the newcomer tells where it goes on
  // Its pushes that were applied or wait to be seen stay.
  void leave(int worker);
  bool has(int worker) const { return clocks_.contains(worker); }
  std::int64_t clock_of(int worker) const { return clocks_.at(worker); }
  // The workers that take part in the step.
  int counted_in(std::int64_t step) const;
  const std::map<int, std::int64_t>& clocks() const { return clocks_; }

  // --- updates ---

  // For pacing by steps: closes the present step with these pushes, in the order of the workers.
  void close_step(std::vector<Push> pushes);
  // For pacing by steps: a push to a step that has closed, with less weight the longer ago that
  // was.
  void apply_late(Push push);
  // For other pacing: takes the push, shows it as soon as the pacing allows.
  void take(Push push);

  // --- reading ---

  // For pacing by steps, the number of closed steps; otherwise the lowest clock of all workers.
  std::int64_t clock() const;
  struct View {
    std::int64_t clock = 0;
    Bytes values;  // valid until the next update
  };
  // The values for a reader that needs this clock at least.
  View view(std::int64_t least) const;
  // The worker's highest push that is in the values.
  std::uint64_t own(int worker) const;

 private:
  void show();
  void update(std::vector<Push>& pushes, double total);
  void sum_up(std::vector<Push>& pushes, double total) const;
  double total_weight() const;
  void keep_for_readers();

  const TableShape* shape_;
  std::vector<std::byte> value_;
  std::vector<std::vector<std::byte>> slots_;  // of the rule
  std::int64_t rule_steps_ = 0;
  std::map<int, std::int64_t> clocks_;  // by worker
  std::map<int, std::uint64_t> own_;    // by worker
  std::map<int, double> weights_;       // by worker: what it said last
  // For pacing by steps:
  std::int64_t closed_steps_ = 0;
  std::deque<double> step_weights_;             // of the last steps, the newest last
  std::deque<std::vector<std::byte>> earlier_;  // exact: the values before the last steps
  // For other pacing:
  std::vector<Push> waiting_;  // to be seen
};

}  // namespace paceline::server
