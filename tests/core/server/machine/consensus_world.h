// Workers of asynchronous consensus ADMM on servers, each with a quadratic of its own, which it
// solves exactly: z, and how it goes on from it.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/server/machine/virtual_table.h"

namespace paceline::test {

// f(x) = x'Ax/2 - b'x, which couples all elements.
struct LocalQuadratic {
  std::vector<std::vector<double>> a;
  std::vector<double> b;

  static LocalQuadratic drawn(std::uint64_t seed, int worker, std::size_t elements) {
    SeededNumbers numbers(mix(seed, static_cast<std::uint64_t>(worker)));
    LocalQuadratic one{std::vector<std::vector<double>>(elements, std::vector<double>(elements)),
                       std::vector<double>(elements)};
    std::vector<double> row(elements);
    for (std::size_t sample = 0; sample < elements; ++sample) {
      for (double& x : row) x = numbers.unit() - 0.5;
      const double y = numbers.unit();
      for (std::size_t i = 0; i < elements; ++i) {
        one.b[i] += y * row[i];
        for (std::size_t j = 0; j < elements; ++j) one.a[i][j] += row[i] * row[j];
      }
    }
    for (std::size_t i = 0; i < elements; ++i) one.a[i][i] += 0.1;
    return one;
  }

  void add(const LocalQuadratic& other) {
    for (std::size_t i = 0; i < b.size(); ++i) {
      b[i] += other.b[i];
      for (std::size_t j = 0; j < b.size(); ++j) a[i][j] += other.a[i][j];
    }
  }

  // The least of f(x) + penalty/2 |x - centre|^2, by elimination: the matrix is positive definite.
  std::vector<double> least(double penalty = 0, std::span<const double> centre = {}) const {
    auto m = a;
    auto x = b;
    for (std::size_t i = 0; i < x.size() && penalty > 0; ++i) {
      m[i][i] += penalty;
      x[i] += penalty * centre[i];
    }
    for (std::size_t i = 0; i < x.size(); ++i)
      for (std::size_t k = i + 1; k < x.size(); ++k) {
        const double factor = m[k][i] / m[i][i];
        for (std::size_t j = i; j < x.size(); ++j) m[k][j] -= factor * m[i][j];
        x[k] -= factor * x[i];
      }
    for (std::size_t i = x.size(); i-- > 0;) {
      for (std::size_t j = i + 1; j < x.size(); ++j) x[i] -= m[i][j] * x[j];
      x[i] /= m[i][i];
    }
    return x;
  }
};

// A worker's part: it goes on from a z, and says what it contributes then.
struct ConsensusSolver {
  LocalQuadratic problem;
  double penalty = 1;
  std::vector<double> contribution = {};  // x + u of the last time; empty at first

  std::vector<double> go_on(std::span<const double> z) {
    std::vector<double> u(z.size()), centre(z.size());
    for (std::size_t i = 0; i < z.size(); ++i) {
      u[i] = contribution.empty() ? 0 : contribution[i] - z[i];
      centre[i] = z[i] - u[i];
    }
    contribution = problem.least(penalty, centre);
    for (std::size_t i = 0; i < z.size(); ++i) contribution[i] += u[i];
    return contribution;
  }
};

inline constexpr std::size_t kConsensusElements = 11;

inline std::map<int, ConsensusSolver> consensus_solvers(std::uint64_t seed, int workers,
                                                        double penalty) {
  std::map<int, ConsensusSolver> all;
  for (int worker = 0; worker < workers; ++worker)
    all[worker] = {LocalQuadratic::drawn(seed, worker, kConsensusElements), penalty};
  return all;
}

struct ConsensusWorld {
  std::map<int, ConsensusSolver> solvers;
  TableTraining training;
  VirtualTable table;

  ConsensusWorld(const std::string& synchrony, Dtype dtype, int workers, std::int64_t rounds,
                 std::uint64_t of_seed, const machine::NetworkFaults& weather = kBadWeather,
                 int replicas = 1)
      : solvers(consensus_solvers(of_seed, workers, 1)),
        training{.steps = rounds,
                 .first = std::vector<double>(kConsensusElements, 0.25),
                 .update = [this](int worker, std::int64_t,
                                  std::span<const double> z) { return solvers[worker].go_on(z); },
                 .computes = drawn_times(of_seed),
                 .quiesces = true},
        table({.name = "z",
               .elements = kConsensusElements,
               .dtype = dtype,
               .synchrony = synchrony,
               .rule = "add",
               .part_bytes = 2 * size_of(dtype),
               .replicas = replicas},
              workers, 1 + replicas, training, weather, of_seed) {}

  // Updates of all workers by their staleness.
  std::map<std::uint64_t, std::uint64_t> staleness() const {
    std::map<std::uint64_t, std::uint64_t> all;
    for (const auto& [member, worker] : table.workers)
      for (const auto& [staleness, count] :
           worker->table.look([](const auto& one) { return one.staleness(); }))
        all[staleness] += count;
    return all;
  }
};

}  // namespace paceline::test
