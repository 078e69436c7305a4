#include "paceline/core/plan/micro_batch_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <vector>

#include "paceline/core/base/check.h"

namespace paceline::plan {
namespace {

constexpr std::size_t kLeastSizes = 4;

double step_of(const MicroBatchQuestion& question, int m) {
  return (m + question.idle) * question.cost(static_cast<double>(question.batch) / m);
}

double ideal_of(const MicroBatchQuestion& question) {
  const double work = question.idle * question.cost.per_sample * question.batch;
  const double most = question.batch;
  if (work <= 0) return 1;
  if (question.cost.start <= 0) return most;
  return std::clamp(std::sqrt(work / question.cost.start), 1.0, most);
}

Failure no_divisor(const MicroBatchQuestion& question, bool fits_none) {
  if (fits_none)
    return {Fault::misuse,
            fmt::format("no number of micro-batches lets a batch of {} fit into memory: raise "
                        "--memory-limit, recompute activations, or add stages",
                        question.batch),
            {}};
  return {Fault::misuse,
          fmt::format("a batch of {} has no divisor that is a multiple of {} and leaves {} samples "
                      "to a micro-batch: choose a batch of which {} is a divisor",
                      question.batch, question.multiple_of, question.least_samples,
                      question.multiple_of * question.least_samples),
          {}};
}

std::string milliseconds(double seconds) {
  return fmt::format("{:.3g} ms", seconds * 1e3);
}

// The neighbours of m* among the allowed numbers, the smaller first.
struct Neighbours {
  std::optional<int> below, above;
};

std::string reason(const MicroBatchQuestion& question, const MicroBatchChoice& choice,
                   const Neighbours& beside, bool is_limited) {
  std::string why = fmt::format(
      "{} of {} samples: a micro-batch takes {} and {} a sample, and a pipeline idles for {:.4g} "
      "of them, so m* = {:.2f}",
      choice.micro_batches, question.batch / choice.micro_batches,
      milliseconds(question.cost.start), milliseconds(question.cost.per_sample), question.idle,
      choice.ideal);
  const std::string of =
      is_limited ? "of the divisors of the batch that are allowed" : "of the divisors of the batch";
  if (beside.below && beside.above && *beside.below != *beside.above)
    why += fmt::format("; {}, {} takes {} a step and {} takes {}", of, *beside.below,
                       milliseconds(step_of(question, *beside.below)), *beside.above,
                       milliseconds(step_of(question, *beside.above)));
  else why += fmt::format("; {}, none is nearer", of);
  return why;
}

}  // namespace

Result<BatchCost> fitted_batch_cost(std::span<const TimedBatch> times) {
  std::set<double> sizes;
  double x = 0, y = 0;
  for (const TimedBatch& time : times) {
    sizes.insert(time.samples);
    x += time.samples;
    y += time.seconds;
  }
  if (sizes.size() < kLeastSizes)
    return Failure{Fault::misuse,
                   fmt::format("times of {} different batch sizes do not tell the start of a "
                               "micro-batch from its samples: time {} sizes or more",
                               sizes.size(), kLeastSizes),
                   {}};
  const auto count = static_cast<double>(times.size());
  const double mean_x = x / count, mean_y = y / count;
  double xx = 0, xy = 0, squares = 0, products = 0;
  for (const TimedBatch& time : times) {
    xx += (time.samples - mean_x) * (time.samples - mean_x);
    xy += (time.samples - mean_x) * (time.seconds - mean_y);
    squares += time.samples * time.samples;
    products += time.samples * time.seconds;
  }
  const double slope = xy / xx;
  if (slope <= 0) return BatchCost{.start = mean_y, .per_sample = 0};
  const double start = mean_y - slope * mean_x;
  if (start < 0) return BatchCost{.start = 0, .per_sample = products / squares};
  return BatchCost{.start = start, .per_sample = slope};
}

Result<MicroBatchChoice> best_micro_batches(const MicroBatchQuestion& question) {
  PACELINE_CHECK(question.batch >= 1 && question.multiple_of >= 1 && question.idle >= 0,
                 "a batch of {} in multiples of {} micro-batches: give 1 or more of both",
                 question.batch, question.multiple_of);
  MicroBatchChoice choice{.ideal = ideal_of(question)};
  Neighbours beside;
  bool fits_none = false, is_limited = false;
  for (int m = 1; m <= question.batch; ++m) {
    if (question.batch % m != 0) continue;
    if (m % question.multiple_of != 0 || question.batch / m < question.least_samples) {
      is_limited = true;
      continue;
    }
    if (question.fits && !question.fits(m)) {
      fits_none = is_limited = true;
      continue;
    }
    if (m <= choice.ideal) beside.below = m;
    if (m >= choice.ideal && !beside.above) beside.above = m;
  }
  if (!beside.below && !beside.above) return no_divisor(question, fits_none);
  const int below = beside.below.value_or(beside.above.value_or(1));
  const int above = beside.above.value_or(below);
  choice.micro_batches = step_of(question, below) <= step_of(question, above) ? below : above;
  choice.seconds = step_of(question, choice.micro_batches);
  choice.why = reason(question, choice, beside, is_limited);
  return choice;
}

}  // namespace paceline::plan
