// Logistic regression whose loss and gradient are sums over samples, and L-BFGS on it in one loop:
// what Sandblaster is compared with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "paceline/core/base/seed.h"
#include "paceline/core/quasi_newton/quasi_newton.h"

namespace paceline::test {

using Vector = std::vector<double>;

struct LossAndGradient {
  double loss = 0;
  Vector gradient;
};

struct LogisticProblem {
  std::size_t dimension = 0;
  std::vector<Vector> samples;
  Vector labels;  // -1 or 1
  static constexpr double kDecay = 0.01;

  LogisticProblem(std::uint64_t seed, std::int64_t count, std::size_t of) : dimension(of) {
    SeededNumbers numbers(seed);
    for (std::int64_t i = 0; i < count; ++i) {
      Vector sample(dimension);
      double sum = 0.3;
      for (std::size_t k = 0; k < dimension; ++k) {
        sample[k] = (2 * numbers.unit() - 1) * (k % 3 == 0 ? 4 : 1);
        sum += sample[k] * (k % 2 == 0 ? 1 : -0.5);
      }
      labels.push_back(sum + 2 * numbers.unit() - 1 > 0 ? 1 : -1);
      samples.push_back(std::move(sample));
    }
  }
  std::int64_t count() const { return static_cast<std::int64_t>(samples.size()); }

  // Sums over the samples [begin, end).
  LossAndGradient sums(std::span<const double> w, std::int64_t begin, std::int64_t end) const {
    LossAndGradient sums{0, Vector(dimension)};
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      double margin = 0, square = 0;
      for (std::size_t k = 0; k < dimension; ++k) {
        margin += samples[i][k] * w[k];
        square += w[k] * w[k];
      }
      margin *= labels[i];
      sums.loss +=
          std::log1p(std::exp(-std::fabs(margin))) + std::max(0.0, -margin) + kDecay / 2 * square;
      const double share = -labels[i] / (1 + std::exp(margin));
      for (std::size_t k = 0; k < dimension; ++k)
        sums.gradient[k] += share * samples[i][k] + kDecay * w[k];
    }
    return sums;
  }
};

// The places where iterations ended, and the losses there.
struct LbfgsPath {
  std::vector<Vector> parameters;
  Vector losses;
};

// L-BFGS of one process, as a loop over whole vectors. The functions say in which order
// products and gradients are summed.
struct SerialLbfgs {
  std::function<double(const Vector&, const Vector&)> dot;
  std::function<double(const Vector&)> sum_abs;
  std::function<LossAndGradient(const Vector&)> evaluate;  // means
  std::size_t history = 10;

  LbfgsPath run(Vector w, int iterations) const {
    struct Pair {
      Vector s, y;
      double sy = 0;
    };
    std::deque<Pair> pairs;  // the newest first
    LbfgsPath path;
    LossAndGradient here = evaluate(w);
    for (int iteration = 0; iteration < iterations; ++iteration) {
      Vector d = here.gradient, shares;
      for (const Pair& pair : pairs) {
        shares.push_back(dot(pair.s, d) / pair.sy);
        for (std::size_t i = 0; i < d.size(); ++i) d[i] -= shares.back() * pair.y[i];
      }
      if (!pairs.empty())
        for (double& one : d) one *= pairs[0].sy / dot(pairs[0].y, pairs[0].y);
      for (std::size_t age = pairs.size(); age-- > 0;) {
        const double there = dot(pairs[age].y, d) / pairs[age].sy;
        for (std::size_t i = 0; i < d.size(); ++i) d[i] += (shares[age] - there) * pairs[age].s[i];
      }
      for (double& one : d) one = -one;
      LossAndGradient there;
      Vector next;
      const auto found = quasi_newton::wolfe_search(
          [&](double step) {
            next = w;
            for (std::size_t i = 0; i < w.size(); ++i) next[i] += step * d[i];
            there = evaluate(next);
            return quasi_newton::LinePoint{step, there.loss, dot(there.gradient, d)};
          },
          {0, here.loss, dot(here.gradient, d)},
          iteration == 0 ? std::min(1.0, 1 / sum_abs(here.gradient)) : 1);
      if (!found.found) return path;
      Pair pair{d, there.gradient};
      for (double& one : pair.s) one *= found.point.step;
      for (std::size_t i = 0; i < w.size(); ++i) pair.y[i] -= here.gradient[i];
      pair.sy = dot(pair.s, pair.y);
      if (quasi_newton::has_curvature(pair.sy, dot(pair.s, pair.s), dot(pair.y, pair.y)))
        pairs.push_front(std::move(pair));
      if (pairs.size() > history) pairs.pop_back();
      w = next;
      here = std::move(there);
      path.parameters.push_back(w);
      path.losses.push_back(here.loss);
    }
    return path;
  }
};

}  // namespace paceline::test
