// Every algorithm of the catalogue goes through the same claims, so that a new file is tested
// before its own test exists.
#include "paceline/core/collective/program/algorithm_catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "paceline/core/base/seed.h"
#include "paceline/core/collective/program/compiled_program.h"
#include "tests/core/collective/programs.h"
#include "tests/support/sanitized.h"
#include "tests/support/seed.h"

namespace paceline::collective {
namespace {

using namespace testing;

std::string algorithm_label(const Algorithm& algorithm) {
  return std::string(name_of(algorithm.operation)) + " " + std::string(algorithm.name);
}

// With root 0 and no hosts. Several tests ask for the same, and a proof takes its time.
const Result<Proof>& proof_of_built_in(const Algorithm& algorithm, int ranks) {
  static std::map<std::tuple<Operation, std::string_view, int>, Result<Proof>> known;
  const auto key = std::tuple(algorithm.operation, algorithm.name, ranks);
  const auto found = known.find(key);
  if (found != known.end()) return found->second;
  return known.emplace(key, verify(algorithm, {.ranks = ranks})).first->second;
}

TEST(Catalogue, HasWhatNoOtherTestMayMiss) {
  for (const Operation operation :
       {Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather,
        Operation::broadcast, Operation::reduce}) {
    built_in(operation, "direct");
  }
  for (const Operation operation : {Operation::gather, Operation::scatter, Operation::reduce})
    built_in(operation, "linear");
  built_in(Operation::all_to_all, "pairwise");
  built_in(Operation::all_reduce, "recursive_doubling");
}

TEST(Catalogue, IsSortedAndNamesEachAlgorithmOnce) {
  const auto key = [](const Algorithm& a) { return std::tuple(name_of(a.operation), a.name); };
  const Catalogue all = built_in_algorithms();
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, key));
  EXPECT_EQ(std::ranges::adjacent_find(all, {}, key), all.end());
}

TEST(Catalogue, FindsByOperationAndName) {
  const Catalogue all = built_in_algorithms();
  for (const Algorithm& algorithm : all) {
    EXPECT_EQ(find(all, algorithm.operation, algorithm.name), &algorithm);
  }
  EXPECT_EQ(find(all, Operation::all_reduce, "no such algorithm"), nullptr);
  EXPECT_EQ(find(all, Operation::barrier, "ring"), nullptr);
}

TEST(Catalogue, CanBeExtendedByACaller) {
  Catalogue mine = built_in_algorithms();
  Algorithm own = mine.front();
  own.name = "my own";
  mine.push_back(own);
  EXPECT_EQ(find(mine, own.operation, "my own"), &mine.back());
}

TEST(Catalogue, EveryAlgorithmIsProvenForEveryRootAndHosts) {
  for (const Algorithm& algorithm : built_in_algorithms()) {
    for (const int ranks : counts_to_prove(algorithm)) {
      const auto proven = programs_of(algorithm, ranks);
      const auto& proof = proof_of_built_in(algorithm, ranks);
      EXPECT_TRUE(proof.has_value()) << proof.error().what;
      for (const int root : std::set{std::min(1, ranks - 1), ranks - 1}) {
        // Most operations have no root: the same programs need no second proof.
        if (programs_of(algorithm, ranks, root) == proven) continue;
        EXPECT_EQ(fault_of(algorithm, ranks, root), "");
      }
      for (const int size : {2, 3}) {
        Shape hosts = on_hosts_of(size, ranks);
        hosts.root = ranks - 1;
        if (programs_of(algorithm, hosts) == programs_of(algorithm, ranks, ranks - 1)) continue;
        EXPECT_EQ(fault_of(algorithm, hosts), "") << "hosts of " << size;
      }
    }
  }
}

// With a closed form, each proof is also one of the costs.
TEST(Catalogue, EveryAlgorithmStatesWhatItCosts) {
  for (const Algorithm& algorithm : built_in_algorithms())
    EXPECT_NE(algorithm.closed_form, nullptr) << algorithm_label(algorithm);
}

TEST(Catalogue, EveryAlgorithmIsProvenForManyRanks) {
  if (test::kSanitized) GTEST_SKIP() << "the proof shares nothing between threads";
  for (const Algorithm& algorithm : built_in_algorithms()) {
    // A proof follows every chunk on every rank: a million of both take seconds.
    const bool has_few_chunks = algorithm.build({.ranks = 64}).chunks <= 2;
    const bool has_many_chunks = algorithm.operation == Operation::all_to_all;
    int ranks = has_few_chunks ? 1023 : has_many_chunks ? 65 : 101;
    while (!algorithm.fits({.ranks = ranks})) ++ranks;
    EXPECT_EQ(fault_of(algorithm, ranks, ranks / 3), "");
  }
}

TEST(Catalogue, EveryAlgorithmHasTheTreeThatItPromises) {
  for (const Algorithm& algorithm : built_in_algorithms()) {
    bool always_balanced = true, always_promised = true;
    for (const int ranks : counts_to_prove(algorithm)) {
      always_balanced =
          always_balanced && proof_of_built_in(algorithm, ranks).value().balanced_tree;
      always_promised = always_promised && algorithm.has_balanced_tree({.ranks = ranks});
    }
    EXPECT_EQ(always_promised, always_balanced) << algorithm_label(algorithm);
    EXPECT_TRUE(!always_balanced || algorithm.determinism == DeterminismClass::d3)
        << algorithm_label(algorithm) << ": one tree for all chunks is class d3";
  }
}

TEST(Catalogue, EveryAlgorithmRoundsAsItPromises) {
  for (const Algorithm& algorithm : built_in_algorithms()) {
    bool always_once = true;
    for (const int ranks : counts_to_prove(algorithm)) {
      Shape hosts = on_hosts_of(2, ranks);
      hosts.root = ranks / 2;
      for (const Shape& shape : {hosts, Shape{.ranks = ranks, .root = ranks / 2}}) {
        for (const Program& program : programs_of(algorithm, shape))
          always_once = always_once && make_plan(program, ranks)->rounds_once;
      }
    }
    EXPECT_EQ(algorithm.rounds_once, always_once) << algorithm_label(algorithm);
  }
}

TEST(Catalogue, EveryAlgorithmRefusesShapesThatAreNone) {
  for (const Algorithm& algorithm : built_in_algorithms()) {
    EXPECT_FALSE(algorithm.fits({.ranks = 4, .rank = 4})) << algorithm_label(algorithm);
    EXPECT_FALSE(algorithm.fits({.ranks = 4, .root = 4})) << algorithm_label(algorithm);
    EXPECT_FALSE(algorithm.fits({.ranks = 0})) << algorithm_label(algorithm);
    EXPECT_FALSE(algorithm.fits({.ranks = 2, .groups = {{0}}})) << algorithm_label(algorithm);
    EXPECT_FALSE(algorithm.fits({.ranks = 2, .groups = {{0, 1}, {}}}))
        << algorithm_label(algorithm);
    EXPECT_FALSE(algorithm.fits({.ranks = 2, .groups = {{0, 1}, {1}}}))
        << algorithm_label(algorithm);
    EXPECT_FALSE(algorithm.fits({.ranks = 4, .dimensions = {2, 3}})) << algorithm_label(algorithm);
    EXPECT_FALSE(algorithm.fits({.ranks = 4, .dimensions = {-2, -2}}))
        << algorithm_label(algorithm);
  }
}

TEST(Catalogue, EveryAlgorithmTakesOneRankAndPowersOfTwo) {
  for (const Algorithm& algorithm : built_in_algorithms()) {
    for (const int ranks : {1, 2, 16, 64}) EXPECT_TRUE(algorithm.fits({.ranks = ranks})) << ranks;
  }
}

// A chunk must come from each rank that has it to each that wants it; sums of it may be made on the
// way.
long least_chunks(const Algorithm& algorithm, int ranks) {
  const long others = ranks - 1, chunks = algorithm.build({.ranks = ranks}).chunks;
  switch (algorithm.operation) {
    case Operation::all_reduce: return 2 * others * chunks;
    case Operation::gather:
    case Operation::scatter: return others;
    case Operation::all_to_all: return others * ranks;
    default: return others * chunks;
  }
}

// How many more it takes, an algorithm's own test tells.
TEST(Catalogue, NoAlgorithmMovesFewerChunksThanCanDo) {
  for (const Algorithm& algorithm : built_in_algorithms()) {
    for (const int ranks : rank_counts(algorithm, 16)) {
      EXPECT_GE(chunks_sent(proof_of_built_in(algorithm, ranks).value()),
                least_chunks(algorithm, ranks))
          << algorithm_label(algorithm) << ", " << ranks << " ranks";
    }
  }
}

// --- one wrong step ---

// Any number but `peer` from -1 to `ranks`: another rank, the rank itself, or none.
int another(int peer, int ranks, SeededNumbers& numbers) {
  const int step = 1 + static_cast<int>(numbers.below(static_cast<std::uint64_t>(ranks + 1)));
  return (peer + 1 + step) % (ranks + 2) - 1;
}

// The slot that a step receives into, adds to, or reads from.
Slot& main_slot(Step& step) {
  if (step.kind == Step::Kind::recv) return step.target;
  return step.kind == Step::Kind::recv_reduce ? step.operand : step.source;
}

// Makes one step wrong in such a way that no program can survive it; "" where the step has nothing
// to spoil this way. Flipped operands and stores turned into sends are not among them: those can be
// other right programs.
std::string spoil(const Algorithm& algorithm, Program& program, int ranks, SeededNumbers& numbers) {
  Round& round = program.rounds[numbers.below(program.rounds.size())];
  const auto index = static_cast<std::ptrdiff_t>(numbers.below(round.size()));
  Step& step = round[static_cast<std::size_t>(index)];
  const std::string was = to_string(step);
  switch (numbers.below(8)) {
    case 0: round.erase(round.begin() + index); return "dropped: " + was;
    case 1: round.push_back(Step(step)); return "twice: " + was;
    case 2:
      if (step.peer < 0) return "";
      step.peer = another(step.peer, ranks, numbers);
      return "other peer: " + was;
    case 3: {
      const int by = numbers.below(2) == 0 ? 1 : -1;
      step.source.chunk += by;
      step.operand.chunk += by;
      step.target.chunk += by;
      return "other chunk: " + was;
    }
    case 4: step.completes = !step.completes; return "completes flipped: " + was;
    case 5:
      if (step.kind == Step::Kind::send || step.kind == Step::Kind::recv) return "";
      step.target.chunk += 1;
      return "other target chunk: " + was;
    case 6:
      if (!algorithm.has_balanced_tree({.ranks = ranks})) return "";
      if (step.kind == Step::Kind::reduce) std::swap(step.source, step.operand);
      else if (step.kind == Step::Kind::recv_reduce) step.operand_is_left = !step.operand_is_left;
      else return "";
      return "operands exchanged: " + was;
    default: {
      // The rank's own part where a sum or a peer's part is meant, or the other way round.
      Slot& slot = main_slot(step);
      slot = slot.space == Slot::Space::input ? output(slot.chunk) : input(slot.chunk);
      return "other space: " + was;
    }
  }
}

TEST(Catalogue, NoAlgorithmSurvivesOneWrongStep) {
  const int tries = test::is_brief() ? 200 : 2000;
  constexpr std::uint64_t kSeed = 20240607;
  for (const Algorithm& algorithm : built_in_algorithms()) {
    SeededNumbers numbers(test::seed(kSeed));
    for (int i = 0; i < tries; ++i) {
      const int ranks = 1 + static_cast<int>(numbers.below(7));
      if (!algorithm.fits({.ranks = ranks})) continue;
      const auto rank = static_cast<int>(numbers.below(static_cast<std::uint64_t>(ranks)));
      const auto root = static_cast<int>(numbers.below(static_cast<std::uint64_t>(ranks)));
      std::vector<Program> programs = programs_of(algorithm, ranks, root);
      const std::string change =
          spoil(algorithm, programs[static_cast<std::size_t>(rank)], ranks, numbers);
      if (change.empty()) continue;
      EXPECT_NE(fault_of(algorithm, programs, root), "")
          << algorithm_label(algorithm) << ", " << ranks << " ranks, root " << root << ", seed "
          << kSeed << ", try " << i << ": rank " << rank << " " << change;
    }
  }
}

}  // namespace
}  // namespace paceline::collective
