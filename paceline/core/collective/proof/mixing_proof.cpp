#include "paceline/core/collective/proof/mixing_proof.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "paceline/core/collective/mixing/mixing_program.h"
#include "paceline/core/collective/proof/counters.h"
#include "paceline/core/collective/proof/matching.h"

namespace paceline::collective {
namespace {

using Wrong = std::optional<std::string>;

// Nothing else may be asked of a graph that names ranks that are not there.
Wrong wrong_peer(const MixingGraph& graph, int ranks, int round) {
  for (int rank = 0; rank < ranks; ++rank)
    for (const MixingTerm& term : graph.terms(ranks, round, rank))
      if (term.peer < 0 || term.peer >= ranks || term.peer == rank)
        return fmt::format("rank {} takes from {}, which is no other rank", rank, term.peer);
  return std::nullopt;
}

// A rank takes a positive part of each vector, and of each once.
Wrong wrong_row(const MixingRow& row, int rank) {
  if (!(row.own > 0))
    return fmt::format("rank {} keeps {} of its own vector: it must keep a part", rank, row.own);
  int before = -1;
  for (const MixingTerm& term : row.from) {
    if (term.peer == before) return fmt::format("rank {} takes from {} twice", rank, term.peer);
    before = term.peer;
    if (!(term.weight > 0))
      return fmt::format("rank {} takes {} of rank {}'s vector: weights must be positive", rank,
                         term.weight, term.peer);
  }
  return std::nullopt;
}

Wrong wrong_sum(const std::vector<MixingRow>& rows) {
  std::vector<double> columns;
  for (const MixingRow& row : rows) columns.push_back(row.own);
  for (const MixingRow& row : rows)
    for (const MixingTerm& term : row.from)
      columns[static_cast<std::size_t>(term.peer)] += term.weight;
  const double tolerance = 1e-15 * static_cast<double>(rows.size());
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    double row = rows[rank].own;
    for (const MixingTerm& term : rows[rank].from) row += term.weight;
    if (std::abs(row - 1) > tolerance)
      return fmt::format("the weights that rank {} takes sum to {}, not to 1", rank, row);
    if (std::abs(columns[rank] - 1) > tolerance)
      return fmt::format("the weights that rank {} gives sum to {}, not to 1: the mean would move",
                         rank, columns[rank]);
  }
  return std::nullopt;
}

double weight_of(const MixingRow& row, int peer) {
  const auto term = std::ranges::lower_bound(row.from, peer, {}, &MixingTerm::peer);
  return term == row.from.end() || term->peer != peer ? 0 : term->weight;
}

Wrong wrong_symmetry(const std::vector<MixingRow>& rows) {
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    for (const auto& [peer, weight] : rows[rank].from) {
      const double back = weight_of(rows[static_cast<std::size_t>(peer)], static_cast<int>(rank));
      if (back != weight)
        return fmt::format(
            "rank {} takes {} of rank {}'s vector, which takes {} of its: the "
            "graph claims to be symmetric",
            rank, weight, peer, back);
    }
  }
  return std::nullopt;
}

Wrong wrong_round(const MixingGraph& graph, const std::vector<MixingRow>& rows) {
  for (std::size_t rank = 0; rank < rows.size(); ++rank)
    if (auto wrong = wrong_row(rows[rank], static_cast<int>(rank))) return wrong;
  if (auto wrong = wrong_sum(rows)) return wrong;
  return graph.is_symmetric ? wrong_symmetry(rows) : std::nullopt;
}

// Every message carries its sender's vector to where its receiver expects that one's, in the same
// round of both.
Wrong wrong_message(const std::vector<Program>& programs, const Rendezvous& meeting) {
  for (int rank = 0; rank < static_cast<int>(programs.size()); ++rank) {
    const auto& rounds = programs[static_cast<std::size_t>(rank)].rounds;
    for (int round = 0; round < static_cast<int>(rounds.size()); ++round) {
      for (int step = 0; step < static_cast<int>(rounds[static_cast<std::size_t>(round)].size());
           ++step) {
        const StepAt at{rank, round, step}, partner = meeting.partner(at);
        const Step& taken = step_at(programs, partner);
        if (step_at(programs, at).kind != Step::Kind::send) continue;
        if (partner.round != round || taken.target != output(rank))
          return fmt::format("{} meets {}", describe(programs, at), describe(programs, partner));
      }
    }
  }
  return std::nullopt;
}

Failure failure(const MixingGraph& graph, int ranks, std::string_view what) {
  return {Fault::misuse, fmt::format("neighbours {}, {} ranks: {}", graph.name, ranks, what), {}};
}

}  // namespace

Result<MixingProof> verify(const MixingGraph& graph, int ranks) {
  if (auto fits = graph.check(ranks); !fits) return fits.error();
  const int period = graph.rounds(ranks);
  if (period < 1) return failure(graph, ranks, fmt::format("it repeats after {} rounds", period));
  for (int round = 0; round <= period; ++round) {
    const auto in_round = [&](const std::string& wrong) {
      return failure(graph, ranks, fmt::format("round {}: {}", round, wrong));
    };
    if (const auto wrong = wrong_peer(graph, ranks, round)) return in_round(*wrong);
    const std::vector<MixingRow> rows = graph.rows(ranks, round);
    if (const auto wrong = wrong_round(graph, rows)) return in_round(*wrong);
    if (round == period && rows != graph.rows(ranks, 0))
      return failure(graph, ranks, fmt::format("round {} is not round 0 again", round));
  }
  const std::vector<Program> programs = mixing_programs(graph, ranks);
  const auto meeting = meet(programs);
  if (!meeting) return failure(graph, ranks, meeting.error().what);
  if (const auto wrong = wrong_message(programs, meeting.value()))
    return failure(graph, ranks, *wrong);
  if (!is_connected(graph, ranks))
    return failure(graph, ranks, "some rank's vector never reaches some other rank");
  const Counters counters = count(programs, meeting.value());
  return MixingProof{.period = period,
                     .messages = counters.messages,
                     .sent = counters.chunks,
                     .rate = mixing_rate(graph, ranks)};
}

}  // namespace paceline::collective
