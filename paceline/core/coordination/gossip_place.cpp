#include "paceline/core/coordination/gossip_place.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline::coordination {
namespace {

enum class Side : char { none, active, passive };

using Graph = std::vector<std::vector<int>>;

const std::vector<int>& of(const Graph& graph, int rank) {
  return graph[static_cast<std::size_t>(rank)];
}

Result<> check_edges(const Graph& graph) {
  const int ranks = static_cast<int>(graph.size());
  for (int rank = 0; rank < ranks; ++rank) {
    for (const int peer : of(graph, rank)) {
      if (peer < 0 || peer >= ranks || peer == rank ||
          std::ranges::count(of(graph, peer), rank) == 0)
        return Failure{Fault::misuse,
                       fmt::format("rank {} names {} as its neighbour: neighbours are other ranks "
                                   "of 0..{} that name each other",
                                   rank, peer, ranks - 1),
                       {rank}};
    }
  }
  return Done{};
}

Failure odd_circle(int one, int other, int ranks) {
  return {Fault::misuse,
          fmt::format("asynchronous gossip needs a graph of two sides, of which one begins and the "
                      "other answers, but a circle of odd length puts the neighbours {} and {} of "
                      "these {} ranks on one side; on a ring take an even number of ranks, else "
                      "leave out the edge {}-{} or use gossip, which is synchronous",
                      one, other, ranks, one, other),
          {one, other}};
}

}  // namespace

Result<std::vector<GossipPlace>> gossip_places(const Graph& neighbours) {
  if (auto checked = check_edges(neighbours); !checked) return checked.error();
  const int ranks = static_cast<int>(neighbours.size());
  std::vector<Side> sides(neighbours.size(), Side::none);
  const auto side = [&](int rank) -> Side& { return sides[static_cast<std::size_t>(rank)]; };
  for (int first = 0; first < ranks; ++first) {
    if (side(first) != Side::none) continue;
    side(first) = Side::active;
    std::vector<int> reached = {first};
    while (!reached.empty()) {
      const int rank = reached.back();
      reached.pop_back();
      for (const int peer : of(neighbours, rank)) {
        if (side(peer) == side(rank))
          return odd_circle(std::min(rank, peer), std::max(rank, peer), ranks);
        if (side(peer) != Side::none) continue;
        side(peer) = side(rank) == Side::active ? Side::passive : Side::active;
        reached.push_back(peer);
      }
    }
  }
  std::vector<GossipPlace> places;
  for (int rank = 0; rank < ranks; ++rank)
    places.push_back({side(rank) == Side::active, of(neighbours, rank)});
  return places;
}

}  // namespace paceline::coordination
