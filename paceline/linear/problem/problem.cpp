#include "paceline/linear/problem/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace paceline::linear {
namespace {

Failure misfit(std::string what) {
  return {Fault::misuse, std::move(what), {}};
}

}  // namespace

double regulariser(const Problem& problem, std::span<const double> weights) {
  double squares = 0, lengths = 0;
  for (const double w : weights) {
    squares += w * w;
    lengths += std::abs(w);
  }
  return problem.l2 / 2 * squares + problem.l1 * lengths;
}

double regulariser_conjugate(const Problem& problem, std::span<const double> v) {
  double squares = 0;
  for (const double one : v) {
    const double beyond = soft_threshold(one, problem.l1);
    squares += beyond * beyond;
  }
  return squares == 0 ? 0 : squares / (2 * problem.l2);
}

double soft_threshold(double v, double by) {
  return std::copysign(std::max(std::abs(v) - by, 0.0), v);
}

Result<> check_problem(const Problem& problem, const Samples& samples) {
  if (samples.size() == 0)
    return misfit("there are no samples to train on; a data set needs at least one");
  for (const auto& [name, value] : {std::pair{"l2", problem.l2}, {"l1", problem.l1}}) {
    if (!(value >= 0) || !std::isfinite(value))
      return misfit(fmt::format("{} is {}; it must be a number of 0 or more", name, value));
  }
  const auto fits = [&](double label) {
    return problem.loss.labels() == Labels::signs ? std::abs(label) == 1 : std::isfinite(label);
  };
  const auto wrong = std::ranges::find_if_not(samples.labels, fits);
  if (wrong == samples.labels.end()) return Done{};
  return misfit(fmt::format(
      "sample {} has the label {}, which the loss {} cannot take: it takes {}",
      wrong - samples.labels.begin() + 1, *wrong, problem.loss.name(),
      problem.loss.labels() == Labels::signs
          ? "-1 and 1; change the labels, or choose squared, absolute or quantile for numbers"
          : "finite numbers"));
}

}  // namespace paceline::linear
