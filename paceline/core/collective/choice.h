// Which algorithm carries an operation out, and in how many segments. Every rank must come to the
// same answer, so it follows from what all ranks know: the operation, its length, the rank count
// and the kind of links.
#pragma once

#include <map>
#include <mutex>
#include <string_view>
#include <tuple>
#include <vector>

#include "paceline/core/collective/catalogue.h"
#include "paceline/core/collective/communicator.h"
#include "paceline/core/topology/prices.h"

namespace paceline::collective {

class Choice {
 public:
  Choice(Catalogue catalogue, Determinism determinism, topology::Prices prices);

  // The algorithm of that name, or without one the cheapest that the determinism allows. THROWS
  // Error (misuse) that lists the names. THREAD: any. `one_rounding`: only those that round sums of
  // 16-bit types once.
  const Algorithm& algorithm(Operation operation, std::string_view name, const Shape& shape,
                             std::size_t bytes, bool one_rounding = false);
  // What may be named.
  std::vector<std::string_view> names(Operation operation, const Shape& shape,
                                      bool one_rounding = false) const;

 private:
  bool allows(const Algorithm& algorithm, const Shape& shape, bool one_rounding) const;
  const Algorithm& named(Operation operation, std::string_view name, const Shape& shape,
                         bool one_rounding) const;
  const Algorithm& cheapest(Operation operation, const Shape& shape, std::size_t bytes,
                            bool one_rounding) const;

  const Catalogue catalogue_;
  const Determinism determinism_;
  const topology::Prices prices_;
  std::mutex mutex_;
  std::map<std::tuple<Operation, int, bool>, const Algorithm*>
      chosen_;  // by the power of two above the length, and one_rounding
};

// Bytes of a chunk that one segment carries, when it carries a piece of `chunks` chunks: so short
// that a piece stays in the cache from its reduction to its store, and that transfers overlap
// reductions.
std::size_t piece_bytes(int chunks, bool shares_memory);

}  // namespace paceline::collective
