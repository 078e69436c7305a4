#include "paceline/core/pipeline/check/walk_order.h"

#include <algorithm>

namespace paceline::pipeline {

Ran::Ran(const Order& order)
    : stages_(order.stages),
      micro_batches_(order.micro_batches),
      kinds_(order.split_backward ? 3 : 2),
      ran_(static_cast<std::size_t>(kinds_) * static_cast<std::size_t>(stages_) *
           static_cast<std::size_t>(micro_batches_)) {}

bool Ran::knows(const Operation& operation) const {
  const auto [kind, stage, micro_batch] = operation;
  return static_cast<int>(kind) < kinds_ && stage >= 0 && stage < stages_ && micro_batch >= 0 &&
         micro_batch < micro_batches_;
}

std::size_t Ran::place_of(const Operation& operation) const {
  const auto kind = static_cast<std::size_t>(operation.kind);
  const auto stage = static_cast<std::size_t>(operation.stage);
  return (kind * static_cast<std::size_t>(stages_) + stage) *
             static_cast<std::size_t>(micro_batches_) +
         static_cast<std::size_t>(operation.micro_batch);
}

bool belongs(const Order& order, int rank, const Operation& operation) {
  return order.placement().rank_of(operation.stage, operation.micro_batch) == rank;
}

Walk walk(const Order& order,
          const std::function<void(int rank, std::size_t position, const Operation&)>& ran) {
  Walk walk{Ran(order), std::vector<std::size_t>(order.ranks.size(), 0)};
  const Placement placement = order.placement();
  const auto can_run = [&](int rank, const Operation& operation) {
    if (!walk.ran.knows(operation) || walk.ran.has(operation)) return false;
    if (placement.rank_of(operation.stage, operation.micro_batch) != rank) return false;
    return std::ranges::all_of(inputs_of(operation, order.stages),
                               [&](const Operation& input) { return walk.ran.has(input); });
  };
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (std::size_t rank = 0; rank < order.ranks.size(); ++rank) {
      const auto& own = order.ranks[rank];
      std::size_t& at = walk.reached[rank];
      for (; at < own.size() && can_run(static_cast<int>(rank), own[at]); ++at) {
        walk.ran.add(own[at]);
        if (ran) ran(static_cast<int>(rank), at, own[at]);
        has_moved = true;
      }
    }
  }
  walk.is_complete = true;
  for (std::size_t rank = 0; rank < order.ranks.size(); ++rank)
    walk.is_complete = walk.is_complete && walk.reached[rank] == order.ranks[rank].size();
  return walk;
}

}  // namespace paceline::pipeline
