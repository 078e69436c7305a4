// ShareValue: what a share of a sparse table holds, as it follows from what was applied in which
// order: the rows with the rule's state, and the clocks of the workers.
//
// All that changes it is a ShareChange, a value, and apply() is the one function that applies it:
// two shares that apply the same changes in the same order are equal, which is what replicas need.
// share_machine.h decides which changes happen. A sum over workers is taken by the balanced tree in
// the order of the workers, where one without an id counts as zeros, then multiplied by one over
// the weights' sum: so a row has the bits of the same row in a dense table.
//
// A table may count an id's pushes before one of them stores its row (admit_after), and may evict
// rows that no step has pushed for long (evict_after), and such counts. What is past its age counts
// as gone from that step on, in every reading and pushing, which compare its stamp; its memory is
// given back by a sweep, of which each step makes a part. So no step waits for a whole sweep, and
// what is read follows from the changes alone.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "paceline/core/server/sparse/row_store.h"
#include "paceline/core/server/sparse/share_change.h"
#include "paceline/core/server/sparse/sparse_rows.h"

namespace paceline::server {

// A number of 32 bits, as stamps and counts of pushes are.
inline std::uint32_t number_at(const std::byte* place) {
  std::uint32_t number = 0;
  std::memcpy(&number, place, sizeof number);
  return number;
}

// It reads the shape, which must outlive it. THREAD: one.
class ShareValue {
 public:
  explicit ShareValue(const SparseShape& shape);

  void apply(ShareChange change);
  // The mean of a step's pushes, in the order of their workers, as `step` wants it.
  ShareChange step_of(std::vector<SparsePush> pushes) const;

  // --- workers ---

  bool has(int worker) const { return clocks_.contains(worker); }
  std::int64_t clock_of(int worker) const { return clocks_.at(worker); }
  const std::map<int, std::int64_t>& clocks() const { return clocks_; }
  bool rests(int worker) const { return resting_.contains(worker); }
  bool do_all_rest() const { return !clocks_.empty() && resting_.size() == clocks_.size(); }
  // For pacing by steps, the number of closed steps; otherwise the lowest clock of all workers.
  std::int64_t clock() const;

  // --- rows ---

  // Writes the rows of these ids one after the other. It stores nothing.
  void read(std::span<const std::uint64_t> ids, std::byte* rows) const;
  std::size_t rows() const;     // that are stored, past their age and not swept yet included
  std::size_t counted() const;  // ids whose pushes are counted, likewise
  std::uint64_t evicted() const { return evicted_; }  // rows, so far
  std::size_t memory() const;                         // bytes of all this and of the index
  std::int64_t rule_steps() const { return rule_steps_; }
  // Whether a stored row is past its age.
  bool is_past(const std::byte* row) const {
    return shape_->evicts() && is_past_at(row + stamp_place_, rule_steps_);
  }
  // Its arcs, each with its rows: values, then the rule's state.
  const std::vector<RowStore>& arcs() const { return arcs_; }

  // All of it as bytes, rows in the order in which they were stored.
  void write(transport::WireWriter& writer) const;
  // False: the bytes are not the value of this share, and this one is of no use any more.
  bool read(transport::WireReader& reader, std::size_t share);

 private:
  void show();
  double total_of_all() const;
  void update(SparsePush& mean);
  void store(const SparsePush& saved);
  void mean_of(std::vector<SparsePush>& pushes, double total) const;
  // Rows that are not stored at once, and that go (share_value_ages.cpp).
  bool is_past_at(const std::byte* stamp, std::int64_t steps) const;
  void write_stamp(std::byte* stamp) const;
  std::byte* begin(std::uint64_t id, std::uint64_t hash, std::byte* past, std::uint32_t pushes);
  bool admits(std::uint64_t id, std::uint64_t hash, std::uint32_t pushes);
  void forget_count(std::uint64_t id, std::uint64_t hash);
  void sweep();
  RowStore& store_to_sweep(std::size_t number);
  void write_ages(transport::WireWriter& writer) const;
  bool read_ages(transport::WireReader& reader, std::size_t share);
  bool read_workers(transport::WireReader& reader);
  bool read_waiting(transport::WireReader& reader, std::size_t share);
  bool read_store(transport::WireReader& reader, std::size_t place, std::size_t share,
                  RowStore& store) const;
  RowStore& arc_of(std::uint64_t hash) { return arcs_[shape_->place_of(shape_->arc_of(hash))]; }
  const RowStore& arc_of(std::uint64_t hash) const {
    return arcs_[shape_->place_of(shape_->arc_of(hash))];
  }

  const SparseShape* shape_;
  std::vector<RowStore> arcs_;
  // For each arc, if the table counts: how many pushes an id has had, u32, and its stamp.
  std::vector<RowStore> counted_;
  std::size_t stamp_place_;  // in a row, if the table evicts
  struct Cursor {
    std::uint32_t store = 0;  // arcs, then those of counts
    std::uint64_t row = 0;
    std::uint64_t looks = 0;  // in each step, so that this pass ends in time
  } cursor_;                  // of the sweep
  std::uint64_t evicted_ = 0;
  std::int64_t rule_steps_ = 0, closed_steps_ = 0;
  std::map<int, std::int64_t> clocks_;  // by worker
  std::map<int, double> weights_;       // by worker: of its last update that is shown
  std::set<int> resting_;
  std::vector<SparsePush> waiting_;  // to be seen, for pacing that is not by steps
};

}  // namespace paceline::server
