#include "paceline/core/pipeline/order/turns.h"

#include <algorithm>
#include <iterator>

namespace paceline::pipeline {

std::vector<Operation> Turns::turn(int own) const {
  std::vector<Operation> operations = {{Kind::forward, stage, micro_batch(own)}};
  if (own >= warm_up) operations.push_back({Kind::backward, stage, micro_batch(own - warm_up)});
  return operations;
}

std::vector<Operation> Turns::drain(int owns) const {
  std::vector<Operation> operations;
  for (int own = std::max(0, owns - warm_up); own < owns; ++own)
    operations.push_back({Kind::backward, stage, micro_batch(own)});
  return operations;
}

int Turns::owns_of(int micro_batches) const {
  return std::max(0, (micro_batches - replica + replicas - 1) / replicas);
}

std::vector<Operation> Turns::until(int micro_batches) const {
  const int owns = owns_of(micro_batches);
  std::vector<Operation> operations;
  for (int own = 0; own < owns; ++own) std::ranges::copy(turn(own), std::back_inserter(operations));
  std::ranges::copy(drain(owns), std::back_inserter(operations));
  return operations;
}

std::vector<int> in_flight_limits(const std::vector<int>& replicas) {
  std::vector<int> limits(replicas.size());
  int behind = 0;
  for (std::size_t stage = replicas.size(); stage-- > 0;) {
    behind += replicas[stage];
    limits[stage] = (behind + replicas[stage] - 1) / replicas[stage];
  }
  return limits;
}

Turns turns_of(const Placement& placement, int rank) {
  std::vector<int> replicas = placement.replicas;
  if (replicas.empty()) replicas.assign(static_cast<std::size_t>(placement.stages), 1);
  int stage = 0, first = 0;
  while (rank >= first + replicas[static_cast<std::size_t>(stage)])
    first += replicas[static_cast<std::size_t>(stage++)];
  return {.stage = stage,
          .warm_up = in_flight_limits(replicas)[static_cast<std::size_t>(stage)] - 1,
          .replica = rank - first,
          .replicas = replicas[static_cast<std::size_t>(stage)]};
}

Order order_of_turns(const std::vector<int>& replicas, int micro_batches) {
  const int stages = static_cast<int>(replicas.size());
  int ranks = 0;
  for (const int count : replicas) ranks += count;
  Order order{.ranks = {}, .stages = stages, .micro_batches = micro_batches};
  if (ranks > stages) order.replicas = replicas;
  const Placement placement{ranks, stages, order.replicas};
  for (int rank = 0; rank < ranks; ++rank)
    order.ranks.push_back(turns_of(placement, rank).until(micro_batches));
  return order;
}

Order order_of_turns(int ranks, int micro_batches) {
  return order_of_turns(std::vector<int>(static_cast<std::size_t>(ranks), 1), micro_batches);
}

}  // namespace paceline::pipeline
