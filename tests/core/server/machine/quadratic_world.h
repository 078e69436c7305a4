// Workers that descend noisy quadratics, each with noise of its own, on a table whose server steps.
#pragma once

#include <string>

#include "tests/core/server/machine/virtual_table.h"

namespace paceline::test {

struct QuadraticWorld {
  std::uint64_t seed;
  TableTraining training;
  VirtualTable table;

  QuadraticWorld(std::string synchrony, std::string rule, Dtype dtype, int workers, int servers,
                 std::uint64_t of_seed, const machine::NetworkFaults& weather = kBadWeather,
                 std::int64_t steps = 6, int replicas = 1)
      : seed(of_seed),
        training{.steps = steps,
                 .first = first(kElements),
                 .update =
                     [this](int worker, std::int64_t clock, std::span<const double> values) {
                       return gradient(seed, worker, clock, values);
                     },
                 .computes = drawn_times(of_seed),
                 .weight = [](int worker) { return weight(worker); }},
        table({.name = "w",
               .elements = kElements,
               .dtype = dtype,
               .synchrony = std::move(synchrony),
               .rule = std::move(rule),
               .part_bytes = 5 * size_of(dtype),
               .replicas = replicas},
              workers, servers, training, weather, of_seed) {}

  static constexpr std::size_t kElements = 23;
  static double weight(int worker) { return 1 + worker % 3; }
  static std::vector<double> first(std::size_t elements) {
    std::vector<double> values;
    for (std::size_t i = 0; i < elements; ++i)
      values.push_back(0.5 - 0.125 * static_cast<double>(i));
    return values;
  }
  static std::vector<double> gradient(std::uint64_t seed, int worker, std::int64_t clock,
                                      std::span<const double> values) {
    SeededNumbers numbers(
        mix(mix(seed, static_cast<std::uint64_t>(worker)), static_cast<std::uint64_t>(clock)));
    std::vector<double> gradient;
    for (const double value : values) gradient.push_back(value - numbers.unit());
    return gradient;
  }

  // Gradient descent on the weighted mean gradient by one loop, after `steps` steps; gradients are
  // taken at the values of `delay` steps ago.
  template <typename T>
  static std::vector<double> serial(std::uint64_t seed, int workers, std::int64_t steps, T rate,
                                    std::int64_t delay = 0) {
    const std::vector<double> start = first(kElements);
    std::vector<std::vector<T>> values = {std::vector<T>(start.begin(), start.end())};
    T total = 0;
    for (int worker = 0; worker < workers; ++worker) total += static_cast<T>(weight(worker));
    for (std::int64_t step = 0; step < steps; ++step) {
      const auto& at = values[static_cast<std::size_t>(std::max<std::int64_t>(0, step - delay))];
      std::vector<T> next = values.back();
      std::vector<std::vector<double>> gradients;
      for (int worker = 0; worker < workers; ++worker)
        gradients.push_back(
            gradient(seed, worker, step, std::vector<double>(at.begin(), at.end())));
      for (std::size_t i = 0; i < next.size(); ++i) {
        std::vector<T> terms;
        for (int worker = 0; worker < workers; ++worker)
          terms.push_back(static_cast<T>(gradients[static_cast<std::size_t>(worker)][i]) *
                          static_cast<T>(weight(worker)));
        next[i] -= rate * (tree(terms) * (T(1) / total));
      }
      values.push_back(std::move(next));
    }
    return {values.back().begin(), values.back().end()};
  }

 private:
  // Split at the largest power of two below the count.
  template <typename T>
  static T tree(std::span<const T> terms) {
    if (terms.size() == 1) return terms[0];
    std::size_t half = 1;
    while (2 * half < terms.size()) half *= 2;
    return tree(terms.first(half)) + tree(terms.subspan(half));
  }
  template <typename T>
  static T tree(const std::vector<T>& terms) {
    return tree(std::span<const T>(terms));
  }
};

}  // namespace paceline::test
