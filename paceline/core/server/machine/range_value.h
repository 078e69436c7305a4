// RangeValue: what a range of a table holds, as it follows from what was applied in which order:
// the values, the rule's state, and the clocks of the workers.
//
// It decides what pushes do and when they may be seen; range_machine.h decides in which order they
// are taken, and range_state.h carries that order out on each replica. Sums are taken by the balanced tree in the order of the workers, then multiplied by
// one over the weights' sum: so bsp has the bits of an optimizer behind a reproducible all_reduce.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "paceline/core/server/machine/consensus_rounds.h"
#include "paceline/core/server/machine/delay_compensation.h"
#include "paceline/core/server/table/table_spec.h"
#include "paceline/core/server/wire/packet.h"
#include "paceline/core/server/wire/range_entry.h"

namespace paceline::server {

// A worker's update of a range.
struct Push {
  PushFacts facts = {};
  std::vector<double> settings = {};   // of the rule
  std::vector<std::byte> values = {};  // the elements of the range
  bool operator==(const Push&) const = default;
};

void write_push(const Push& push, transport::WireWriter& writer);
// False: the bytes are not a push with so many bytes of elements.
bool read_push(transport::WireReader& reader, std::size_t bytes, Push& push);

// A value. It reads the shape, which must outlive it and its copies.
class RangeValue {
 public:
  RangeValue(const TableShape& shape, std::size_t range);

  // The first values; with them the slots of the rule's state, which has made `steps`, or none.
  // REQUIRES: as many bytes as the range has, or as many more for each slot.
  void assign(Bytes values, std::int64_t steps = 0);

  // --- workers ---

  // A newcomer's clock begins with the range's, so that nothing goes on without it.
  void join(int worker);
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

  // For pacing by steps: the mean of these pushes, which are in the order of the workers, with
  // their weights' sum `total`; the sum for a rule that sums; nothing if nothing counts.
  std::vector<std::byte> combined(std::vector<Push> pushes, double total) const;
  // For pacing by steps: closes the present step, to which these pushes came. Without any, the step
  // changes nothing but the clock.
  void close_step(std::span<const PushFacts> pushes, double total, Bytes mean,
                  std::span<const double> settings);
  // For pacing by steps: a push to a step that has closed, with less weight the longer ago that
  // was. Returns the weight of that step; apply_late() has what combined() has made of them.
  double share_late(Push& push) const;
  void apply_late(const PushFacts& push, Bytes mean, std::span<const double> settings);
  // For other pacing: takes the push, shows it as soon as the pacing allows.
  void take(Push push);
  // For pacing by rounds: ends one, in which the pushes of these workers that were taken are new.
  // REQUIRES: waits_for_round() of each.
  void close_round(const std::vector<int>& workers);
  bool waits_for_round(int worker) const;
  const ConsensusRounds& rounds() const { return *rounds_; }

  // --- reading ---

  // For pacing by steps, the number of closed steps; otherwise the lowest clock of all workers.
  std::int64_t clock() const;
  struct View {
    std::int64_t clock = 0;
    std::uint64_t version = 0;
    Bytes values;  // valid until the next update
  };
  // The values for a reader that needs this clock at least.
  View view(std::int64_t least) const;
  // The row for the reader's pull of this number.
  View row_for(int reader, std::uint32_t pull, std::int64_t least);
  // A row with this view tells the reader so.
  RowFacts facts_for(int reader, const View& view) const;
  // The values, then the slots of the rule's state, which has made rule_steps().
  std::vector<std::byte> values_and_state() const;
  std::int64_t rule_steps() const { return rule_steps_; }
  // The worker's highest push that is in the values.
  std::uint64_t own(int worker) const;

  // --- as bytes ---

  void write(transport::WireWriter& writer) const;
  // False: the bytes are not those of such a range, and this value is of no use any more.
  bool read(transport::WireReader& reader);

 private:
  void show();
  void show_together();
  void apply(std::vector<Push> pushes);
  void adapt(Push& push);
  void slow_down(std::vector<Push>& pushes, std::vector<double>& settings) const;
  std::uint64_t staleness_of(const PushFacts& push) const;
  std::uint64_t version() const;
  void note_applied(const PushFacts& push);
  void update(std::span<const PushFacts> pushes, Bytes mean, std::span<const double> settings);
  double total_of(const std::map<int, double>& weights) const;
  double weight_of_all(int reader) const;
  std::vector<std::byte> consensus() const;
  void keep_for_readers();
  bool read_members(transport::WireReader& reader);
  bool read_history(transport::WireReader& reader);
  bool read_differences(transport::WireReader& reader);
  bool read_rounds(transport::WireReader& reader);

  struct Reader {
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
  DelayCompensation compensation_;
  std::map<int, std::vector<std::byte>> differences_;  // elastic, by worker: of its last push
  std::optional<ConsensusRounds> rounds_;              // where the pacing has them
};

}  // namespace paceline::server
