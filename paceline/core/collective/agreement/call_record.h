// The roll of one collective: the ranks that have called it, and their factors in a weighted
// average.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "paceline/core/collective/call/call.h"

namespace paceline::collective {

class CallRecord {
 public:
  explicit CallRecord(int ranks) : calls_(static_cast<std::size_t>(ranks)), missing_(ranks) {}

  void enter(int rank, Call call);  // once for each rank
  // Every other rank is known to have called the same, without a note. `weights`: of all ranks,
  // where the call is weighted.
  void enter_all_like(const Call& own, std::span<const double> weights = {});
  bool is_complete() const { return missing_ == 0; }
  const std::optional<Call>& call_of(int rank) const {
    return calls_[static_cast<std::size_t>(rank)];
  }
  std::vector<int> missing() const;
  bool has_one_without_offer() const;  // of those that have called

  // Averages. 16-bit inputs are scaled by their share of the weights and the sum by nothing:
  // weights are often large, and the range of f16 is small. REQUIRES: is_complete().
  bool weigh_the_same() const;          // then inputs need not be multiplied
  double input_factor(int rank) const;  // else by this
  double sum_factor() const;            // the sum, once it is complete
  double total_weight() const;  // of the weighted ranks, in rank order: the same bits everywhere

 private:
  std::vector<std::optional<Call>> calls_;
  int missing_;
};

}  // namespace paceline::collective
