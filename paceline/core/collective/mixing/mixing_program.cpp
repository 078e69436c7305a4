#include "paceline/core/collective/mixing/mixing_program.h"

#include <algorithm>

namespace paceline::collective {
namespace {

Round round_of(const MixingRow& row, int ranks, int rank) {
  const auto ahead = [&](int peer) { return (peer - rank + ranks) % ranks; };
  const auto behind = [&](int peer) { return (rank - peer + ranks) % ranks; };
  std::vector<int> to = row.to, from;
  for (const MixingTerm& term : row.from) from.push_back(term.peer);
  std::ranges::sort(to, {}, ahead);
  std::ranges::sort(from, {}, behind);
  Round round;
  for (const int peer : to) round.push_back(send(peer, input(rank)));
  for (const int peer : from) round.push_back(recv(peer, output(peer)));
  return round;
}

}  // namespace

std::vector<Program> mixing_programs(const MixingGraph& graph, int ranks) {
  std::vector<Program> programs(static_cast<std::size_t>(ranks), Program{.chunks = ranks});
  for (int round = 0; round < graph.rounds(ranks); ++round) {
    const std::vector<MixingRow> rows = graph.rows(ranks, round);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      programs[index].rounds.push_back(round_of(rows[index], ranks, rank));
    }
  }
  return programs;
}

}  // namespace paceline::collective
