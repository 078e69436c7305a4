// The averagings of all ranks in one process: their exchanges are carried out by copying.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "paceline/core/compress/averaging/averaging.h"

namespace paceline::test {

using Gradients = std::vector<std::vector<float>>;  // of each rank

class AveragingRun {
 public:
  using Make = std::function<std::unique_ptr<compress::Averaging>(int rank)>;
  AveragingRun(int ranks, const Make& make);

  // Called with the results of an exchange, before the ranks go on: a test may damage them.
  std::function<void(std::vector<compress::Exchange>&)> on_carried_out;

  // Carries out one step on all ranks. The test fails unless all of them end it in the same way.
  struct Outcome {
    Gradients means;  // empty after an overflow or a failure
    bool overflowed = false;
    std::optional<Failure> failure;
  };
  Outcome step(Gradients gradients, std::uint32_t number);

  // Bytes of the last step.
  std::vector<compress::Exchange::Kind> kinds;
  std::size_t payload_bytes = 0;  // in messages of all ranks to others, without headers
  std::size_t reduced_bytes = 0;  // in the all_reduces of one rank

  compress::Averaging& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  std::vector<float> values(int rank, std::string_view name);  // one part of its state
  std::vector<std::vector<float>> state(int rank);             // its whole state
  void restore(int rank, const std::vector<std::vector<float>>& state);

 private:
  void count(const std::vector<compress::Exchange>& exchanges);

  std::vector<std::unique_ptr<compress::Averaging>> ranks_;
};

// The method as a user writes it, for tensors of any size (min_compress_bytes is 0).
AveragingRun run_of(std::string_view compression, int ranks, std::size_t rows, std::size_t columns);

// The error after some steps of gradients on a grid: the largest magnitude of
// sum of results + `pending`(run) - sum of mean gradients.
using Pending = std::function<std::vector<double>(AveragingRun&)>;
double lost_over(int steps, AveragingRun& run, int ranks, std::size_t elements,
                 const Pending& pending);
// The mean over the ranks of a state.
Pending mean_state(int ranks, std::string name = "residual");

// Does the work of a communicator: it sums by the balanced tree in rank order, in f32 or exactly.
void carry_out(std::vector<compress::Exchange>& exchanges);

// The mean over the ranks, in f64.
std::vector<double> mean_of(const Gradients& gradients);

// About normally distributed multiples of 2^-10, whose sums are exact.
Gradients gradients_on_grid(int ranks, std::size_t elements, std::uint64_t seed);
// Any floats, about normally distributed.
Gradients gradients_of(int ranks, std::size_t elements, std::uint64_t seed);
// The numbers are the same in every run, even if PACELINE_SEED is set: for one scenario with one
// outcome.
Gradients fixed_gradients_of(int ranks, std::size_t elements, std::uint64_t seed);

}  // namespace paceline::test
