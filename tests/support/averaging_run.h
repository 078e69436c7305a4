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

  // What an exchange brought, before the ranks go on: a test may damage it.
  std::function<void(std::vector<compress::Exchange>&)> on_carried_out;

  // One step on all ranks, which go the same way, or the test fails.
  struct Outcome {
    Gradients means;  // empty: an overflow, or a failure
    bool overflowed = false;
    std::optional<Failure> failure;
  };
  Outcome step(Gradients gradients, std::uint32_t number);

  // Of the last step.
  std::vector<compress::Exchange::Kind> kinds;
  std::size_t payload_bytes = 0;  // of messages to other ranks, of all ranks, headers apart
  std::size_t reduced_bytes = 0;  // what one rank brings to its all_reduces

  compress::Averaging& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  std::vector<float> values(int rank, std::string_view name);  // of its state
  std::vector<std::vector<float>> state(int rank);             // all of it
  void restore(int rank, const std::vector<std::vector<float>>& state);

 private:
  void count(const std::vector<compress::Exchange>& exchanges);

  std::vector<std::unique_ptr<compress::Averaging>> ranks_;
};

// The method as a user writes it, whatever the size of the tensor.
AveragingRun run_of(std::string_view compression, int ranks, std::size_t rows, std::size_t columns);

// How much is missing after some steps of gradients on a grid: the largest magnitude of
// sum of results + `pending`(run) - sum of mean gradients.
using Pending = std::function<std::vector<double>(AveragingRun&)>;
double lost_over(int steps, AveragingRun& run, int ranks, std::size_t elements,
                 const Pending& pending);
// The mean over the ranks of a state.
Pending mean_state(int ranks, std::string name = "residual");

// Does what a communicator would: sums are the balanced tree in rank order, in f32 or exact.
void carry_out(std::vector<compress::Exchange>& exchanges);

// The mean over the ranks, in f64.
std::vector<double> mean_of(const Gradients& gradients);

// Multiples of 2^-10 that are about normally distributed: sums of them are exact.
Gradients gradients_on_grid(int ranks, std::size_t elements, std::uint64_t seed);
// Any floats, about normally distributed.
Gradients gradients_of(int ranks, std::size_t elements, std::uint64_t seed);
// The same in every run, whatever PACELINE_SEED is: for one scenario with one outcome.
Gradients fixed_gradients_of(int ranks, std::size_t elements, std::uint64_t seed);

}  // namespace paceline::test
