// The proof, from the cheapest question to the dearest: is each program well formed (form.h), do
// all messages meet (matching.h), does everyone end with the right sums (symbolic_run.h), are
// stores safe (store_hazards.h), do views end (view_hazards.h)?
#include "paceline/core/collective/proof/verify.h"

#include <fmt/format.h>

#include <algorithm>

#include "paceline/core/collective/program/contract.h"
#include "paceline/core/collective/proof/counters.h"
#include "paceline/core/collective/proof/form.h"
#include "paceline/core/collective/proof/matching.h"
#include "paceline/core/collective/proof/store_hazards.h"
#include "paceline/core/collective/proof/symbolic_run.h"
#include "paceline/core/collective/proof/view_hazards.h"

namespace paceline::collective {
namespace {

Result<std::vector<Program>> built_programs(const Algorithm& algorithm, Shape shape) {
  std::vector<Program> programs;
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank) {
    if (!algorithm.fits(shape)) {
      return Failure{
          Fault::misuse, "does not fit this shape: see the algorithm's `fits`", {shape.rank}};
    }
    programs.push_back(algorithm.build(shape));
  }
  if (programs.empty()) return Failure{Fault::misuse, "a shape needs at least one rank", {}};
  return programs;
}

// The sum of each chunk, which every rank that the operation promises it to must hold.
class Results {
 public:
  Results(Operation operation, const Shape& shape, int chunks, const SymbolicRun& run,
          const Symbols& symbols)
      : operation_(operation), shape_(shape), run_(run), symbols_(symbols) {
    trees_.assign(static_cast<std::size_t>(chunks), -1);
  }

  Result<Done> check() {
    Shape at = shape_;
    for (at.rank = 0; at.rank < shape_.ranks; ++at.rank) {
      for (int chunk = 0; chunk < static_cast<int>(trees_.size()); ++chunk) {
        if (!has_output(operation_, at, chunk)) continue;
        const std::string wrong = complaint(chunk, run_.value(at.rank, output(chunk)));
        if (wrong.empty()) continue;
        return Failure{
            Fault::misuse,
            fmt::format("rank {} ends with {} {}", at.rank, to_string(output(chunk)), wrong),
            {at.rank}};
      }
    }
    return Done{};
  }

  const std::vector<Symbols::Id>& trees() const { return trees_; }  // by chunk

 private:
  std::string complaint(int chunk, const Value& value) {
    if (value.sum < 0) return "not written";
    if (value.chunk != chunk) return fmt::format("holding chunk {}", value.chunk);
    if (!is_reduction(operation_)) {
      const int source = source_of(operation_, shape_, chunk);
      if (value.sum == symbols_.leaf(source)) return "";
      return fmt::format("holding {} instead of {}", symbols_.text(value.sum), source);
    }
    if (!symbols_.is_whole(value.sum)) return "holding only " + symbols_.text(value.sum);
    if (!value.complete) return "not marked complete";
    Symbols::Id& tree = trees_[static_cast<std::size_t>(chunk)];
    if (tree < 0) tree = value.sum;
    if (tree == value.sum) return "";
    return fmt::format("summed as {}, and elsewhere as {}", symbols_.text(value.sum),
                       symbols_.text(tree));
  }

  Operation operation_;
  const Shape& shape_;
  const SymbolicRun& run_;
  const Symbols& symbols_;
  std::vector<Symbols::Id> trees_;
};

// The summation tree of each chunk; none where nothing is summed. REQUIRES: the programs have
// passed check_form and met as `meeting` says.
Result<std::vector<Symbols::Id>> trees_of(Operation operation, const Shape& shape,
                                          const std::vector<Program>& programs,
                                          const Rendezvous& meeting, Symbols& symbols) {
  std::vector<Symbols::Id> trees;
  for (const bool in_place : {false, true}) {
    SymbolicRun run(operation, shape, programs, meeting, in_place, symbols);
    Results results(operation, shape, programs[0].chunks, run, symbols);
    auto right = run.run();
    if (right) right = results.check();
    if (right) right = check_stores(programs, meeting, in_place);
    if (right) right = check_views(programs, meeting, in_place);
    if (!right) {
      Failure failure = right.error();
      if (in_place) failure.what = "in place, " + failure.what;
      return failure;
    }
    trees = results.trees();
  }
  if (!is_reduction(operation)) trees.clear();
  return trees;
}

// The promises that the algorithm makes about its bits, against the trees that were found.
Result<Done> check_promises(const Algorithm& algorithm, const Shape& shape,
                            const std::vector<Symbols::Id>& trees, Symbols& symbols) {
  const bool promises_balanced = algorithm.has_balanced_tree(shape);
  for (std::size_t chunk = 0; chunk < trees.size(); ++chunk) {
    const std::string tree = symbols.text(trees[chunk]);
    if (promises_balanced && trees[chunk] != symbols.balanced()) {
      return Failure{
          Fault::misuse,
          fmt::format("chunk {} is summed as {}, but the algorithm promises the balanced tree {}",
                      chunk, tree, symbols.text(symbols.balanced())),
          {}};
    }
    if (algorithm.determinism == DeterminismClass::d3 && trees[chunk] != trees[0]) {
      return Failure{Fault::misuse,
                     fmt::format("chunk {} is summed as {} and chunk 0 as {}: class d2, not d3",
                                 chunk, tree, symbols.text(trees[0])),
                     {}};
    }
  }
  return Done{};
}

Result<Done> check_cost(const Algorithm& algorithm, const Shape& shape, const Counters& counted) {
  if (algorithm.closed_form == nullptr) return Done{};
  const Counters stated = algorithm.closed_form(shape);
  if (counted == stated) return Done{};
  return Failure{
      Fault::misuse,
      fmt::format("takes {}, but the algorithm states {}", to_string(counted), to_string(stated)),
      {}};
}

Proof proof_of(const std::vector<Program>& programs, const Counters& counters,
               const std::vector<Symbols::Id>& trees, Symbols& symbols) {
  Proof proof;
  proof.depth = counters.depth;
  proof.messages = counters.messages;
  proof.sent_chunks = sent_chunks(programs);
  const auto is_balanced = [&](Symbols::Id tree) { return tree == symbols.balanced(); };
  proof.balanced_tree = std::ranges::all_of(trees, is_balanced);
  if (!trees.empty()) proof.tree = symbols.text(trees[0]);
  for (const Program& program : programs)
    proof.rounds = std::max(proof.rounds, static_cast<int>(program.rounds.size()));
  return proof;
}

// Like verify, but the failures do not name the program.
Result<Proof> prove(const Algorithm& algorithm, const Shape& shape) {
  if (!has_programs(algorithm.operation))
    return Failure{Fault::misuse, "this operation has no programs", {}};
  auto programs = built_programs(algorithm, shape);
  if (!programs) return programs.error();
  if (auto sound = check_form(algorithm.operation, shape, *programs); !sound) return sound.error();
  Result<Rendezvous> meeting = meet(*programs);
  if (!meeting) return meeting.error();

  Symbols symbols(shape.ranks);
  auto trees = trees_of(algorithm.operation, shape, *programs, *meeting, symbols);
  if (!trees) return trees.error();
  if (auto kept = check_promises(algorithm, shape, *trees, symbols); !kept) return kept.error();
  const Counters counters = count(*programs, *meeting);
  if (auto kept = check_cost(algorithm, shape, counters); !kept) return kept.error();
  return proof_of(*programs, counters, *trees, symbols);
}

}  // namespace

Counters counters_of(const Proof& proof) {
  return {proof.depth, proof.messages, std::ranges::max(proof.sent_chunks)};
}

Result<Proof> verify(const Algorithm& algorithm, const Shape& shape) {
  auto proof = prove(algorithm, shape);
  if (proof) return proof;
  const Failure& failure = proof.error();
  return Failure{failure.fault,
                 fmt::format("{} {}, {}: {}", name_of(algorithm.operation), algorithm.name,
                             to_string(shape), failure.what),
                 failure.ranks};
}

}  // namespace paceline::collective
