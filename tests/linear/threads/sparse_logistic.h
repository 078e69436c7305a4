// Sparse problems with labels -1 and 1, and their solution by one loop without threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "paceline/core/base/seed.h"
#include "paceline/linear.h"
#include "tests/support/local_world.h"

namespace paceline::test {

using linear::Problem;
using linear::Samples;

// n samples of d features, of which each has `entries`, drawn evenly; values and the labels'
// weights are even in [-1, 1], rows have about unit length, labels are those of the sign, but for 5
// %.
inline Samples sparse_samples(std::size_t n, std::size_t d, std::size_t entries,
                              std::uint64_t seed) {
  SeededNumbers numbers(seed);
  const auto even = [&] { return 2 * numbers.unit() - 1; };
  std::vector<double> truth(d);
  for (double& one : truth) one = even();
  Samples samples{.rows = {.width = d}};
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<std::uint32_t> features;
    while (features.size() < entries) {
      const auto j = static_cast<std::uint32_t>(numbers.below(d));
      if (std::ranges::find(features, j) == features.end()) features.push_back(j);
    }
    std::ranges::sort(features);
    std::vector<double> values;
    for (std::size_t k = 0; k < entries; ++k)
      values.push_back(even() * std::sqrt(3. / static_cast<double>(entries)));
    const double sign = linear::dot({features, values}, truth) > 0 ? 1 : -1;
    samples.rows.append({features, values});
    samples.labels.push_back(numbers.below(20) == 0 ? -sign : sign);
  }
  return samples;
}

// Sample i has the features 3 i, 3 i + 1 and 3 i + 2.
inline Samples disjoint_samples(std::size_t n, std::uint64_t seed) {
  SeededNumbers numbers(seed);
  Samples samples;
  for (std::size_t i = 0; i < n; ++i) {
    const auto j = static_cast<std::uint32_t>(3 * i);
    const std::vector<std::uint32_t> features = {j, j + 1, j + 2};
    const std::vector<double> values = {numbers.unit(), numbers.unit(), -numbers.unit()};
    samples.rows.append({features, values});
    samples.labels.push_back(numbers.below(2) == 0 ? 1 : -1);
  }
  return samples;
}

inline Problem logistic_problem(double l2) {
  return {.loss = linear::parse_loss("logistic").value(), .l2 = l2};
}

struct Solved {
  std::vector<double> weights;
  std::string remark;
  double primal = 0;
};

// The result of a solver after so many rounds in one process.
inline Solved solved_alone(const std::string& solver, const Problem& problem,
                           const Samples& samples, int rounds) {
  Solved solved;
  run_ranks(1, [&](Job& job) {
    const auto one =
        make_solver(linear::parse_solver(solver).value(),
                    {.problem = problem, .samples = samples, .group = job.world(), .seed = 7});
    for (int round = 0; round < rounds; ++round) one->round();
    solved.weights = one->weights();
    solved.remark = one->remark();
    solved.primal =
        objective(problem, samples, samples.size(), solved.weights, {}, job.world()).primal;
  });
  return solved;
}

// The same steps by one loop that shares no code with the solvers, at rate 0.1 and decay 0.9.
inline std::vector<double> solved_by_one_loop(const Problem& problem, const Samples& samples,
                                              int rounds) {
  const auto n = static_cast<double>(samples.size());
  std::vector<double> w(samples.rows.width), count(samples.rows.width);
  for (const std::uint32_t j : samples.rows.columns) ++count[j];
  for (int epoch = 0; epoch < rounds; ++epoch) {
    const double rate = .1 * std::pow(.9, static_cast<double>(epoch));
    for (const std::size_t i : linear::permutation(samples.size(), linear::seed_of(7, 0, epoch))) {
      const linear::SparseVector x = samples.rows.row(i);
      const double move = rate * problem.loss.derivative(dot(x, w), samples.labels[i]);
      for (std::size_t k = 0; k < x.entries(); ++k) {
        double& one = w[x.indices[k]];
        const double strength = rate * (problem.l2 * n / count[x.indices[k]]);
        one -= 1 / (1 + strength) * (move * x.values[k] + strength * one);
      }
    }
  }
  return w;
}

}  // namespace paceline::test
