#include "paceline/core/collective/building/balanced_tree.h"

namespace paceline::collective {
namespace {

bool lies_in_scratch(const Slot& slot) {
  return slot.space == Slot::Space::scratch;
}

// Halves `slots`, which afterwards names the partial sums.
Round add_neighbours(std::vector<Slot>& slots) {
  Round round;
  std::vector<Slot> sums;
  for (std::size_t i = 0; i + 1 < slots.size(); i += 2) {
    const Slot sum = lies_in_scratch(slots[i]) ? slots[i] : slots[i + 1];
    round.push_back(reduce(slots[i], slots[i + 1], sum));
    sums.push_back(sum);
  }
  if (slots.size() % 2 == 1) sums.push_back(slots.back());
  slots = std::move(sums);
  return round;
}

}  // namespace

std::vector<Round> balanced_reduction(std::vector<Slot> leaves, Slot target) {
  if (leaves.size() == 1) return {{completing(copy(leaves[0], target))}};
  std::vector<Round> rounds;
  while (leaves.size() > 2) rounds.push_back(add_neighbours(leaves));
  rounds.push_back({completing(reduce(leaves[0], leaves[1], target))});
  return rounds;
}

Program sum_of_own_chunk(const Shape& shape, Slot target) {
  const int n = shape.ranks, own = shape.rank;
  Program program{.chunks = n, .scratch_places = n == 1 ? 0 : n};
  Round exchange;
  std::vector<Slot> leaves(static_cast<std::size_t>(n), input(own));
  // Each rank starts with the peer after itself: at any moment no two of them load the same peer.
  for (int distance = 1; distance < n; ++distance) {
    const int peer = (own + distance) % n;
    exchange.push_back(send(peer, input(peer)));
    exchange.push_back(recv(peer, scratch(peer, own)));
    leaves[static_cast<std::size_t>(peer)] = scratch(peer, own);
  }
  if (n > 1) program.rounds.push_back(exchange);
  for (Round& level : balanced_reduction(leaves, target)) program.rounds.push_back(level);
  return program;
}

Program sum_at_root(const Shape& shape) {
  const int n = shape.ranks, root = shape.root;
  if (shape.rank != root) return {.chunks = 1, .rounds = {{send(root, input(0))}}};
  Program program{.chunks = 1, .scratch_places = n == 1 ? 0 : n};
  Round collect;
  std::vector<Slot> leaves(static_cast<std::size_t>(n), input(0));
  for (int rank = 0; rank < n; ++rank) {
    if (rank == root) continue;
    collect.push_back(recv(rank, scratch(rank, 0)));
    leaves[static_cast<std::size_t>(rank)] = scratch(rank, 0);
  }
  if (n > 1) program.rounds.push_back(collect);
  for (Round& level : balanced_reduction(leaves, output(0))) program.rounds.push_back(level);
  return program;
}

}  // namespace paceline::collective
