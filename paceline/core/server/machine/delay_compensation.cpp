#include "paceline/core/server/machine/delay_compensation.h"

#include <cmath>
#include <utility>

namespace paceline::server {
namespace {

// The published constant that keeps a mean square of zero apart from zero.
constexpr double kLeastSquare = 1e-7;

template <typename T>
struct Arrays {
  T* gradient;
  const T *values, *read;
  T* mean_square;
};

// The gradient keeps its bits where nothing has moved.
template <typename T>
void compensate_in(const Compensation& by, std::size_t count, const Arrays<T>& arrays) {
  const T decay = static_cast<T>(by.decay), least = static_cast<T>(kLeastSquare);
  for (std::size_t i = 0; i < count; ++i) {
    T lambda = static_cast<T>(by.lambda);
    T& gradient = arrays.gradient[i];
    if (by.is_adaptive) {
      T& mean = arrays.mean_square[i];
      mean = decay * mean + (1 - decay) * gradient * gradient;
      lambda /= std::sqrt(mean + least);
    }
    const T moved = arrays.values[i] - arrays.read[i];
    if (moved != 0) gradient += lambda * gradient * gradient * moved;
  }
}

template <typename T>
Arrays<T> arrays_of(MutableBytes gradient, Bytes values, Bytes read, MutableBytes mean_square) {
  return {reinterpret_cast<T*>(gradient.data()), reinterpret_cast<const T*>(values.data()),
          reinterpret_cast<const T*>(read.data()), reinterpret_cast<T*>(mean_square.data())};
}

}  // namespace

void DelayCompensation::begin(Bytes values) {
  first_.assign(values.begin(), values.end());
  rows_.clear();
}

const DelayCompensation::Row& DelayCompensation::answer(int worker, Row now) {
  const auto [found, is_new] = rows_.try_emplace(worker);
  if (is_new || found->second.pull != now.pull) found->second = std::move(now);
  return found->second;
}

void DelayCompensation::compensate(const Compensation& by, Dtype dtype, int worker,
                                   MutableBytes gradient, Bytes values,
                                   MutableBytes mean_square) const {
  const auto found = rows_.find(worker);
  const Bytes read = found == rows_.end() ? first_ : found->second.values;
  const std::size_t count = values.size() / size_of(dtype);
  if (dtype == Dtype::f64)
    compensate_in(by, count, arrays_of<double>(gradient, values, read, mean_square));
  else compensate_in(by, count, arrays_of<float>(gradient, values, read, mean_square));
}

}  // namespace paceline::server
