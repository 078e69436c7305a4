// How many rows of a sparse table a second workers pull and push, beside the table alone: the same
// requests to the same rows in the memory of one process, without messages.
#pragma once

#include <cstddef>
#include <string>

#include "paceline/core/job/job.h"

namespace paceline::measure {

struct SparseOptions {
  std::size_t rows = 1'000'000;  // that are stored before
  std::size_t ids = 1000;        // in a request, drawn uniformly from these rows
  std::size_t width = 16;        // f32 elements of a row
  std::string rule = "adagrad";
  double seconds = 1;  // of pulls, then of pushes
};

// Rows a second.
struct SparseRates {
  double pulled = 0, pushed = 0;
};

// In this process, on one thread. THROWS Error (misuse): no such rule.
SparseRates bare_sparse_rates(const SparseOptions& options);

// The sum of the workers of a job, under asp: each has a few pulls under way, and as many pushes as
// the table allows. Collective; the same on all workers. THROWS Error: what SparseTable throws.
SparseRates sparse_rates_of_workers(Job& job, const SparseOptions& options);

}  // namespace paceline::measure
