// Workers that push in turn, one after the other, on a network that neither loses nor reorders
// anything: each push but the first ones has missed those of all other workers.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/core/server/machine/virtual_table.h"

namespace paceline::test {

struct RoundRobinWorld {
  // The gradient of the push with this number, counted over all workers.
  using Gradient = std::function<std::vector<double>(std::int64_t push, std::span<const double>)>;

  TableTraining training;
  VirtualTable table;

  RoundRobinWorld(std::string synchrony, std::string rule, int workers, std::int64_t rounds,
                  std::vector<double> first, Gradient gradient)
      : training{.steps = rounds,
                 .first = std::move(first),
                 .update =
                     [=, of = std::move(gradient)](int worker, std::int64_t clock,
                                                   std::span<const double> values) {
                       return of(clock * workers + worker, values);
                     },
                 .computes =
                     [=](int worker, std::int64_t clock) {
                       return machine::Time(1ms) * (clock == 0 ? worker + 1 : workers);
                     }},
        table({.name = "x",
               .elements = training.first.size(),
               .dtype = Dtype::f64,
               .synchrony = std::move(synchrony),
               .rule = std::move(rule)},
              workers, 1, training, {.least_delay = 10us, .most_delay = 10us}, 1) {}

  bool run() { return table.run(100000s); }
  // The values after each push, in their order.
  std::vector<std::vector<double>> path() const {
    std::vector<std::vector<double>> path;
    for (const TableRead& read : training.reads)
      if (read.clock > 0) path.push_back(read.values);
    return path;
  }
  // The numbers of pushes of each staleness, of all that are in the values.
  std::map<std::uint64_t, std::uint64_t> staleness() const {
    std::map<std::uint64_t, std::uint64_t> all;
    for (const auto& [member, worker] : table.workers)
      for (const auto& [staleness, count] :
           worker->table.look([](const auto& one) { return one.staleness(); }))
        all[staleness] += count;
    return all;
  }
};

// x^2 / 2 in one dimension, each push of which is multiplied by `eta`.
inline RoundRobinWorld parabola(const std::string& synchrony, int workers, double eta,
                                std::int64_t rounds) {
  return {
      synchrony, fmt::format("sgd:rate={}", eta * workers),
      workers,   rounds,
      {1},       [](std::int64_t, std::span<const double> x) { return std::vector<double>{x[0]}; }};
}

// The modulus of the two conjugate roots that govern the end of a path: x(t+2) = a x(t+1) + b x(t).
inline double radius_at_end(const std::vector<std::vector<double>>& path) {
  const auto x = [&](std::size_t back) { return path[path.size() - back][0]; };
  return std::sqrt((x(1) * x(3) - x(2) * x(2)) / (x(2) * x(4) - x(3) * x(3)));
}

}  // namespace paceline::test
