// The number of micro-batches of a step. Many keep a pipeline busy, few are quick to start:
//
//   step(m) = (m + idle) (c0 + c1 B / m),   least at   m* = sqrt(idle c1 B / c0)
//
// B samples, c0 seconds to start a micro-batch, c1 for each of its samples on the slowest stage,
// `idle` the micro-batches in whose time a stage idles (pipeline_form.h): p - 1 under 1F1B.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "paceline/core/base/result.h"

namespace paceline::plan {

// The seconds of a micro-batch of b samples on the slowest stage: start + per_sample * b.
struct BatchCost {
  double start = 0, per_sample = 0;
  double operator()(double samples) const { return start + per_sample * samples; }
};

struct TimedBatch {
  double samples = 0, seconds = 0;
};

// The line through these times by least squares. A line that begins below 0, or falls, is refitted
// without its start, or with a slope of 0. The failure (misuse) asks for four different sizes, as
// fewer do not tell noise from a start-up.
Result<BatchCost> fitted_batch_cost(std::span<const TimedBatch> times);

// In rising order. REQUIRES: n >= 1.
std::vector<int> divisors_of(int n);

struct MicroBatchQuestion {
  int batch = 1;    // samples of a step
  double idle = 0;  // in micro-batches
  BatchCost cost = {};
  int multiple_of = 1;    // of the stages, under an interleaved schedule
  int least_samples = 1;  // of a micro-batch: kernels are slow below
  // Says whether a step of this many micro-batches fits into memory. Empty: all do.
  std::function<bool(int)> fits = {};
  // A forecast of the step that knows more than the formula above. Empty: the formula.
  std::function<double(int)> step_seconds = {};
};

struct MicroBatchChoice {
  int micro_batches = 1;
  double ideal = 1;    // m*, within 1 and the batch
  double seconds = 0;  // of the step
  std::string why;     // a sentence for the user
};

// The divisor of the batch with the quickest step of those that are allowed, the smallest of
// several. By the formula, which is convex in m, it is one of the two neighbours of m*. The failure
// (misuse) names the condition that no divisor meets, and the remedy.
Result<MicroBatchChoice> best_micro_batches(const MicroBatchQuestion& question);

struct MeasuredStep {
  int micro_batches = 1;
  double seconds = 0;
};

struct MicroBatchSearch {
  int micro_batches = 1;                    // the number to take
  std::vector<MeasuredStep> measured = {};  // in rising order
};

// Fewer micro-batches are taken if more of them save less than this share of a step, since messages
// and whatever else each of them costs beside its layers are not measured.
inline constexpr double kWorthMore = 0.05;

// Measures a step for each of the numbers in `first`, and then goes from the quickest on to its
// neighbours among the divisors of the batch that are allowed, as long as one is quicker: where
// times do not lie on a line, the formula may be far off. `seconds` is called once for a number.
// REQUIRES: `first` has some of those that are allowed.
MicroBatchSearch quickest_micro_batches(const MicroBatchQuestion& question,
                                        std::span<const int> first,
                                        const std::function<double(int)>& seconds);

}  // namespace paceline::plan
