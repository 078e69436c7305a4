// Conflicts between the samples of a batch: two samples may be worked on at the same time if no
// chain of common features joins them (Pan, Lam, Tu, Papailiopoulos, Zhang, Jordan, Ramchandran,
// Re, Recht, Cyclades, NeurIPS 2016).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "paceline/linear/data/sparse_rows.h"

namespace paceline::linear {

// A connected component of a batch's conflict graph.
struct Component {
  std::vector<std::size_t> samples;  // in the order of the batch
  std::size_t work = 0;              // entries of their rows
};

// Finds the components of batches by union-find, in time near-linear in the entries of the batch.
// THREAD: one. The rows outlive it.
class ConflictGraph {
 public:
  explicit ConflictGraph(const SparseRows& rows) : rows_(rows), owners_(rows.width, kNone) {}

  // The batch may name a sample several times. The components are in the order of their first
  // samples in the batch, and no two of them have a feature in common.
  std::vector<Component> components(std::span<const std::size_t> batch);

 private:
  static constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t root_of(std::size_t place);

  const SparseRows& rows_;
  std::vector<std::size_t> owners_;   // by feature: a place of the batch whose sample has it
  std::vector<std::size_t> parents_;  // by place of the batch; of a root: itself
};

// The components that each thread works on, one after the other, by longest processing time first:
// each, the largest first, goes to the thread that has the least work so far. Thread t of the
// result may have none. Indices are those of `components`.
std::vector<std::vector<std::size_t>> deal_out(std::span<const Component> components, int threads);

}  // namespace paceline::linear
