// Shared parts of the tests of programs: built-in programs, and algorithms made of wrong ones.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/collective/program/algorithm_catalogue.h"
#include "paceline/core/collective/program/program.h"
#include "paceline/core/collective/proof/verify.h"
#include "tests/support/nightly.h"

namespace paceline::collective::testing {

// The largest number of ranks for which the tests of an algorithm prove its closed forms.
inline const int kProofRanks = test::kSanitized ? 17 : 64;

inline Algorithm built_in(Operation operation, std::string_view name) {
  const Catalogue all = built_in_algorithms();
  const Algorithm* found = find(all, operation, name);
  EXPECT_NE(found, nullptr) << name_of(operation) << " " << name;
  return found == nullptr ? Algorithm{} : *found;
}

// The programs of all ranks, by rank.
inline std::vector<Program> programs_of(const Algorithm& algorithm, Shape shape) {
  std::vector<Program> programs;
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank) {
    programs.push_back(algorithm.build(shape));
  }
  return programs;
}

inline std::vector<Program> programs_of(const Algorithm& algorithm, int ranks, int root = 0) {
  return programs_of(algorithm, Shape{.ranks = ranks, .root = root});
}

// The rank counts up to `most` that the algorithm takes.
inline std::vector<int> rank_counts(const Algorithm& algorithm, int most) {
  std::vector<int> counts;
  for (int ranks = 1; ranks <= most; ++ranks) {
    if (algorithm.fits({.ranks = ranks})) counts.push_back(ranks);
  }
  return counts;
}

// Those up to kProofRanks; by day only some above 33, for the time of a proof grows with their
// square.
inline std::vector<int> counts_to_prove(const Algorithm& algorithm) {
  std::vector<int> counts = rank_counts(algorithm, kProofRanks);
  if (!test::is_nightly())
    std::erase_if(counts, [](int ranks) { return ranks > 33 && (ranks + 1) % 16 > 1; });
  return counts;
}

// The algorithm `like`, but with these programs. Only the latest one works: an Algorithm holds
// plain functions.
inline Algorithm with_programs(Algorithm like, std::vector<Program> programs) {
  static std::vector<Program> stage;
  stage = std::move(programs);
  like.fits = is_valid;
  like.build = [](const Shape& shape) { return stage.at(static_cast<std::size_t>(shape.rank)); };
  return like;
}

// The verifier's complaint; "" if the algorithm is proven.
inline std::string fault_of(const Algorithm& algorithm, const Shape& shape) {
  const auto proof = verify(algorithm, shape);
  return proof ? "" : proof.error().what;
}

inline std::string fault_of(const Algorithm& algorithm, int ranks, int root = 0) {
  return fault_of(algorithm, Shape{.ranks = ranks, .root = root});
}

inline std::string fault_of(const Algorithm& like, const std::vector<Program>& programs,
                            int root = 0) {
  return fault_of(with_programs(like, programs), static_cast<int>(programs.size()), root);
}

inline Proof proof_of(const Algorithm& algorithm, const Shape& shape) {
  auto proof = verify(algorithm, shape);
  EXPECT_TRUE(proof.has_value()) << proof.error().what;
  return proof ? *std::move(proof) : Proof{};
}

inline Proof proof_of(const Algorithm& algorithm, int ranks, int root = 0) {
  return proof_of(algorithm, Shape{.ranks = ranks, .root = root});
}

// `ranks` on hosts of `size` neighbours each, the last one with what remains.
inline Shape on_hosts_of(int size, int ranks) {
  Shape shape{.ranks = ranks};
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank % size == 0) shape.groups.emplace_back();
    shape.groups.back().push_back(rank);
  }
  return shape;
}

// The chunks that the whole job sends.
inline long chunks_sent(const Proof& proof) {
  return std::accumulate(proof.sent_chunks.begin(), proof.sent_chunks.end(), 0L);
}

// All-reduce of one chunk by two ranks that both sum for themselves: right, and easily made wrong.
inline Algorithm swap_and_sum() {
  return {.operation = Operation::all_reduce,
          .name = "swap_and_sum",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count};
}

inline std::vector<Program> swap_and_sum_programs() {
  const Slot own = input(0), peers = scratch(0, 0);
  const auto program = [&](int peer, Slot left, Slot right) {
    return Program{.chunks = 1,
                   .scratch_places = 1,
                   .rounds = {{send(peer, own), recv(peer, peers)},
                              {completing(reduce(left, right, output(0)))}}};
  };
  return {program(1, own, peers), program(0, peers, own)};
}

}  // namespace paceline::collective::testing
