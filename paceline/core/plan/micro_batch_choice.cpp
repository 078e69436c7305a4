#include "paceline/core/plan/micro_batch_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "paceline/core/base/check.h"

namespace paceline::plan {
namespace {

constexpr std::size_t kLeastSizes = 4;

double step_of(const MicroBatchQuestion& question, int m) {
  if (question.step_seconds) return question.step_seconds(m);
  return (m + question.idle) * question.cost(static_cast<double>(question.batch) / m);
}

double ideal_of(const MicroBatchQuestion& question) {
  const double work = question.idle * question.cost.per_sample * question.batch;
  const double most = question.batch;
  if (work <= 0) return 1;
  if (question.cost.start <= 0) return most;
  return std::clamp(std::sqrt(work / question.cost.start), 1.0, most);
}

Failure no_divisor(const MicroBatchQuestion& question, bool is_short_of_memory) {
  if (is_short_of_memory)
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

struct Allowed {
  std::vector<int> numbers;  // divisors of the batch, ascending
  bool is_limited = false;   // there are other divisors
  bool is_short_of_memory = false;
};

Allowed allowed_numbers(const MicroBatchQuestion& question) {
  Allowed allowed;
  for (const int m : divisors_of(question.batch)) {
    const bool has_shape =
        m % question.multiple_of == 0 && question.batch / m >= question.least_samples;
    const bool fits = has_shape && (!question.fits || question.fits(m));
    if (fits) allowed.numbers.push_back(m);
    allowed.is_limited = allowed.is_limited || !fits;
    allowed.is_short_of_memory = allowed.is_short_of_memory || (has_shape && !fits);
  }
  return allowed;
}

// `at`: the place of the chosen number.
std::string reason(const MicroBatchQuestion& question, const MicroBatchChoice& choice,
                   const Allowed& allowed, std::size_t at) {
  std::string why = fmt::format(
      "{} of {} samples: a micro-batch takes {} and {} a sample, and a pipeline idles for {:.4g} "
      "of them, so m* = {:.2f}; of the divisors of the batch{}, {} takes {} a step",
      choice.micro_batches, question.batch / choice.micro_batches,
      milliseconds(question.cost.start), milliseconds(question.cost.per_sample), question.idle,
      choice.ideal, allowed.is_limited ? " that are allowed" : "", choice.micro_batches,
      milliseconds(choice.seconds));
  const auto add = [&](int m) {
    why += fmt::format(", {} takes {}", m, milliseconds(step_of(question, m)));
  };
  if (at > 0) add(allowed.numbers[at - 1]);
  if (at + 1 < allowed.numbers.size()) add(allowed.numbers[at + 1]);
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

std::vector<int> divisors_of(int n) {
  std::vector<int> small, large;
  for (int i = 1; i <= n / i; ++i) {
    if (n % i != 0) continue;
    small.push_back(i);
    if (i != n / i) large.push_back(n / i);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

Result<MicroBatchChoice> best_micro_batches(const MicroBatchQuestion& question) {
  PACELINE_CHECK(question.batch >= 1 && question.multiple_of >= 1 && question.idle >= 0,
                 "a batch of {} in multiples of {} micro-batches: give 1 or more of both",
                 question.batch, question.multiple_of);
  const Allowed allowed = allowed_numbers(question);
  if (allowed.numbers.empty()) return no_divisor(question, allowed.is_short_of_memory);
  const auto best = std::ranges::min_element(allowed.numbers, {},
                                             [&question](int m) { return step_of(question, m); });
  MicroBatchChoice choice{
      .micro_batches = *best, .ideal = ideal_of(question), .seconds = step_of(question, *best)};
  choice.why =
      reason(question, choice, allowed, static_cast<std::size_t>(best - allowed.numbers.begin()));
  return choice;
}

// The least number whose step is hardly longer than the quickest one.
static int worthwhile(const std::map<int, double>& measured) {
  const auto by_seconds = [](const auto& one) { return one.second; };
  const double least = std::ranges::min_element(measured, {}, by_seconds)->second;
  const auto is_near = [least](const auto& one) { return one.second <= least / (1 - kWorthMore); };
  return std::ranges::find_if(measured, is_near)->first;
}

MicroBatchSearch quickest_micro_batches(const MicroBatchQuestion& question,
                                        std::span<const int> first,
                                        const std::function<double(int)>& seconds) {
  const std::vector<int> allowed = allowed_numbers(question).numbers;
  std::map<int, double> measured;
  int best = 0;
  const auto measure = [&](int m) {
    const auto [place, is_new] = measured.try_emplace(m, 0.0);
    if (is_new) place->second = seconds(m);
    if (best == 0 || place->second < measured.at(best)) best = m;
  };
  for (const int m : first)
    if (std::ranges::find(allowed, m) != allowed.end()) measure(m);
  PACELINE_CHECK(best != 0, "none of the {} first numbers of micro-batches is allowed",
                 first.size());
  for (int from = 0; from != best;) {
    from = best;
    const auto at = std::ranges::find(allowed, from);
    if (at != allowed.begin()) measure(*(at - 1));
    if (at + 1 != allowed.end()) measure(*(at + 1));
  }
  MicroBatchSearch search{.micro_batches = worthwhile(measured)};
  for (const auto& [m, taken] : measured) search.measured.push_back({m, taken});
  return search;
}

}  // namespace paceline::plan
