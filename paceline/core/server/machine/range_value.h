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
#include <set>
#include <vector>

#include "paceline/core/server/table/table_spec.h"
#include "paceline/core/server/wire/packet.h"

namespace paceline::server {

// A worker's update of a range.
struct Push {
  int worker = 0;
  std::uint64_t sequence = 0;
  std::int64_t stamp = 0;
  double weight = 1;
  std::vector<double> settings = {};   // of the rule
  std::vector<std::byte> values = {};  // the elements of the range
  std::uint64_t read = 0;              // the version that its worker had read when it came
};

// A value. It reads the shape, which must outlive it and its copies.
class RangeValue {
 public:
  RangeValue(const TableShape& shape, std::size_t range);

  // The first values; with them the slots of the rule's state, which has made `steps`, or none.
  // REQUIRES: as many bytes as the range has, or as many more for each slot.
  void assign(Bytes values, std::int64_t steps = 0);

  // --- workers ---

  // A newcomer's clock begins with the range's, so that nothing goes on without it.
  void join(int worker) { clocks_.emplace(worker, clock()); }
  void raise(int worker, std::int64_t clock);  // the newcomer tells where it goes on
  // Its pushes that were applied or wait to be seen stay.
  void leave(int worker);
  bool has(int worker) const { return clocks_.contains(worker); }
  std::int64_t clock_of(int worker) const { return clocks_.at(worker); }
  // A worker that is quiet pushes nothing until all are: nothing waits for it meanwhile.
  void quiesce(int worker);
  bool is_quiet(int worker) const { return quiet_.contains(worker); }
  bool has_quiet() const { return !quiet_.empty(); }
  bool are_all_quiet() const { return !clocks_.empty() && quiet_.size() == clocks_.size(); }
  // All go on, at the highest clock of theirs. REQUIRES: are_all_quiet(); every push was taken.
  void wake();
  // The workers that take part in the step, without those that are quiet.
  int counted_in(std::int64_t step) const;
  const std::map<int, std::int64_t>& clocks() const { return clocks_; }

  // --- updates ---

  // For pacing by steps: closes the present step with these pushes, in the order of the workers.
  // Without any, the step changes nothing but the clock.
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
  // A row with this view tells the reader so. The reader has read it from here on.
  RowFacts facts_for(int reader, const View& view);
  std::uint64_t version_read_by(int worker) const;
  // The values, then the slots of the rule's state, which has made rule_steps().
  std::vector<std::byte> values_and_state() const;
  std::int64_t rule_steps() const { return rule_steps_; }
  // The worker's highest push that is in the values.
  std::uint64_t own(int worker) const;

 private:
  void show();
  std::uint64_t version() const;
  void note_applied(const Push& push);
  void update(std::vector<Push>& pushes, double total);
  void sum_up(std::vector<Push>& pushes, double total) const;
  double total_of(const std::map<int, double>& weights) const;
  double weight_of_all(int reader) const;
  void keep_for_readers();

  struct Reader {
    std::uint64_t read = 0;                    // the version that it read last
    std::uint64_t applied = 0, staleness = 0;  // as RowFacts tell
  };

  const TableShape* shape_;
  std::vector<std::byte> value_;
  std::vector<std::vector<std::byte>> slots_;  // of the rule
  std::int64_t rule_steps_ = 0;
  std::map<int, std::int64_t> clocks_;  // by worker
  std::map<int, std::uint64_t> own_;    // by worker
  std::map<int, double> weights_;       // by worker: of its last update that is shown
  std::map<int, double> said_;          // by worker: of its last update
  std::set<int> quiet_;
  std::map<int, Reader> readers_;  // by worker
  std::uint64_t updates_ = 0;      // for other pacing than by steps: the version
  // For pacing by steps:
  std::int64_t closed_steps_ = 0;
  std::deque<double> step_weights_;             // of the last steps, the newest last
  std::deque<std::vector<std::byte>> earlier_;  // exact: the values before the last steps
  // For other pacing:
  std::vector<Push> waiting_;  // to be seen
};

}  // namespace paceline::server
