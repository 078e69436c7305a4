// Which algorithm carries an operation out, and in how many segments. Every rank must come to the same answer, so it follows from what
// all ranks know: the operation, its length, the rank count and the kind of links.
#pragma once

#include <map>
#include <mutex>
#include <string_view>

#include "paceline/core/collective/catalogue.h"
#include "paceline/core/collective/communicator.h"
#include "paceline/core/collective/partition.h"
#include "paceline/core/topology/prices.h"

namespace paceline::collective {

class Choice {
 public:
  Choice(Catalogue catalogue, Determinism determinism, topology::Prices prices);

  // The algorithm of that name, or without one the cheapest that the determinism allows. THROWS Error (misuse) that lists the names.
  // THREAD: any.
  const Algorithm& algorithm(Operation operation, std::string_view name, const Shape& shape, std::size_t bytes);

 private:
  const Algorithm& named(Operation operation, std::string_view name, const Shape& shape) const;
  const Algorithm& cheapest(Operation operation, const Shape& shape, std::size_t bytes) const;

  const Catalogue catalogue_;
  const Determinism determinism_;
  const topology::Prices prices_;
  std::mutex mutex_;
  std::map<std::pair<Operation, int>, const Algorithm*> chosen_;  // by the power of two above the length
};

// Segments so short that a chunk's piece stays in the cache from its reduction to its store, and that transfers overlap reductions.
int segment_count(const Partition& partition, std::size_t element_bytes, bool shares_memory);

}  // namespace paceline::collective
