// Chooses the algorithm that carries an operation out, and the length of its segments. Every rank
// must come to the same answer, so it follows from values that all ranks know: the operation, its
// length, which ranks share a host, and a profile that all have from rank 0.
#pragma once

#include <map>
#include <mutex>
#include <string_view>
#include <tuple>
#include <vector>

#include "paceline/core/collective/call/options.h"
#include "paceline/core/collective/price/timetable.h"
#include "paceline/core/collective/program/algorithm_catalogue.h"
#include "paceline/core/topology/topology.h"

namespace paceline::collective {

// One way to do it.
struct AlgorithmCandidate {
  const Algorithm* algorithm = nullptr;
  std::size_t piece_bytes = 0;  // of each chunk in one segment
  double seconds = 0;           // what the model says (cost.h)
};

class AlgorithmChoice {
 public:
  AlgorithmChoice(Catalogue catalogue, Determinism determinism, topology::Topology topology,
                  topology::Profile profile = {});

  // The algorithm of that name, or without one the cheapest that the determinism allows, and the
  // segments that suit it. THROWS Error (misuse) that lists the names. THREAD: any. `one_rounding`:
  // only those that round sums of 16-bit types once. COST: the first
  // call for a length simulates the candidates whose lower bound may win; later calls look the
  // answer up. An all_to_all of 0 bytes is one with counts, which no algorithm for equal counts
  // gets unless it is named.
  AlgorithmCandidate choose(Operation operation, std::string_view name, const Shape& shape,
                            std::size_t bytes, bool one_rounding = false);

  // Every algorithm that may be chosen, with the segments that suit it; the cheapest first. THREAD:
  // any.
  std::vector<AlgorithmCandidate> candidates(Operation operation, const Shape& shape,
                                             std::size_t bytes, bool one_rounding = false);

  // The algorithms that a call may name.
  std::vector<std::string_view> names(Operation operation, const Shape& shape,
                                      bool one_rounding = false) const;

 private:
  const Algorithm& named(Operation operation, std::string_view name, const Shape& shape,
                         bool one_rounding) const;
  bool allows(const Algorithm& algorithm, Operation operation, const Shape& shape,
              bool one_rounding) const;
  AlgorithmCandidate cheapest(Operation operation, const Shape& shape, std::size_t bytes,
                              bool one_rounding);
  AlgorithmCandidate cheaper(AlgorithmCandidate best, const Algorithm& algorithm,
                             const Shape& shape, std::size_t bytes);
  bool is_better(const AlgorithmCandidate& one, const AlgorithmCandidate& other, Shape shape);
  bool in_memory() const;
  const Timetable& timetable(const Algorithm& algorithm, const Shape& shape);

  const Catalogue catalogue_;
  const Determinism determinism_;
  const topology::Topology topology_;
  const topology::Profile profile_;
  std::mutex mutex_;
  std::map<const Algorithm*, Timetable> timetables_;
  // The choices made so far, by operation, name, length and one_rounding.
  std::map<std::tuple<Operation, std::string, std::size_t, bool>, AlgorithmCandidate, std::less<>>
      chosen_;
};

// The length that stands for `bytes` and for those up to a quarter longer: its three highest bits.
std::size_t size_class(std::size_t bytes);

}  // namespace paceline::collective
