// ShareValue: what a share of a sparse table holds, as it follows from what was applied in which
// order: the rows with the rule's state, and the clocks of the workers.
//
// All that changes it is a ShareChange, a value, and apply() is the one function that applies it:
// two shares that apply the same changes in the same order are equal, which is what replicas need.
// share_machine.h decides which changes happen. A sum over workers is taken by the balanced tree in
// the order of the workers, where one without an id counts as zeros, then multiplied by one over
// the weights' sum: so a row has the bits of the same row in a dense table.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "paceline/core/server/sparse/row_store.h"
#include "paceline/core/server/sparse/share_change.h"
#include "paceline/core/server/sparse/sparse_rows.h"

namespace paceline::server {

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
  std::size_t rows() const;    // that are stored
  std::size_t memory() const;  // bytes of them and of the index
  std::int64_t rule_steps() const { return rule_steps_; }
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
  bool read_workers(transport::WireReader& reader);
  bool read_waiting(transport::WireReader& reader, std::size_t share);
  bool read_arc(transport::WireReader& reader, std::size_t place, std::size_t share);
  RowStore& arc_of(std::uint64_t hash) { return arcs_[shape_->place_of(shape_->arc_of(hash))]; }
  const RowStore& arc_of(std::uint64_t hash) const {
    return arcs_[shape_->place_of(shape_->arc_of(hash))];
  }

  const SparseShape* shape_;
  std::vector<RowStore> arcs_;
  std::int64_t rule_steps_ = 0, closed_steps_ = 0;
  std::map<int, std::int64_t> clocks_;  // by worker
  std::map<int, double> weights_;       // by worker: of its last update that is shown
  std::set<int> resting_;
  std::vector<SparsePush> waiting_;  // to be seen, for pacing that is not by steps
};

}  // namespace paceline::server
