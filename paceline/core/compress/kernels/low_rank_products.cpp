#include "paceline/core/compress/kernels/low_rank_products.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "paceline/core/compress/kernels/low_rank_products.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace paceline::compress {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void add(const float* values, float* target, std::size_t count) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::Add(hn::LoadU(d, target + i), hn::LoadU(d, values + i)), d, target + i);
  for (; i < count; ++i) target[i] += values[i];
}

// target = start + factor * values, where start may be target.
void add_multiple(const float* start, float factor, const float* values, float* target,
                  std::size_t count) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  const auto factors = hn::Set(d, factor);
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::Add(hn::LoadU(d, start + i), hn::Mul(factors, hn::LoadU(d, values + i))), d,
               target + i);
  for (; i < count; ++i) target[i] = start[i] + factor * values[i];
}

// It adds into 16 sums side by side, for vectors of any width: element i goes into sum i % 16.
float dot(const float* left, const float* right, std::size_t count) {
  constexpr std::size_t kSums = 16;
  const hn::CappedTag<float, kSums / 2> d;
  const std::size_t lanes = hn::Lanes(d), whole = count / kSums * kSums;
  HWY_ALIGN float sums[kSums];
  const auto product = [&](std::size_t i) {
    return hn::Mul(hn::LoadU(d, left + i), hn::LoadU(d, right + i));
  };
  for (std::size_t at = 0; at < kSums; at += 2 * lanes) {
    auto a = hn::Zero(d), b = a;
    for (std::size_t i = at; i < whole; i += kSums) {
      a = hn::Add(a, product(i));
      b = hn::Add(b, product(i + lanes));
    }
    hn::Store(a, d, sums + at);
    hn::Store(b, d, sums + at + lanes);
  }
  for (std::size_t i = whole; i < count; ++i) sums[i - whole] += left[i] * right[i];
  for (std::size_t half = kSums / 2; half > 0; half /= 2)
    for (std::size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  return sums[0];
}

void add_and_multiply_rows(MatrixView matrix, std::span<const float> addend,
                           std::span<const float> right, std::span<float> left) {
  const std::size_t rows = matrix.rows(), columns = matrix.columns;
  for (std::size_t i = 0; i < rows; ++i) {
    float* const row = matrix.row(i).data();
    if (!addend.empty()) add(addend.data() + i * columns, row, columns);
    for (std::size_t c = 0; c * columns < right.size(); ++c)
      left[c * rows + i] = dot(row, right.data() + c * columns, columns);
  }
}

void multiply_transposed_rows(MatrixView matrix, std::span<const float> left,
                              std::span<float> right) {
  const std::size_t rows = matrix.rows(), columns = matrix.columns;
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t c = 0; c * columns < right.size(); ++c) {
      float* const target = right.data() + c * columns;
      add_multiple(target, left[c * rows + i], matrix.row(i).data(), target, columns);
    }
  }
}

void replace_rows_by_product(MatrixView matrix, std::span<const float> left,
                             std::span<const float> own, std::span<const float> mean,
                             std::span<float> rest) {
  const std::size_t rows = matrix.rows(), columns = matrix.columns;
  // target = start + sign * row i of left * transposed factor.
  const auto add_product = [&](const float* start, float sign, std::span<const float> factor,
                               std::size_t i, float* target) {
    for (std::size_t c = 0; c * columns < factor.size(); ++c, start = target)
      add_multiple(start, sign * left[c * rows + i], factor.data() + c * columns, target, columns);
  };
  for (std::size_t i = 0; i < rows; ++i) {
    float* const row = matrix.row(i).data();
    if (!rest.empty()) add_product(row, -1, own, i, rest.data() + i * columns);
    std::fill_n(row, columns, 0.0f);
    add_product(row, 1, mean, i, row);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace paceline::compress
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace paceline::compress {

HWY_EXPORT(add_and_multiply_rows);
HWY_EXPORT(multiply_transposed_rows);
HWY_EXPORT(replace_rows_by_product);

void add_and_multiply(MatrixView matrix, std::span<const float> addend,
                      std::span<const float> right, std::span<float> left) {
  HWY_DYNAMIC_DISPATCH(add_and_multiply_rows)(matrix, addend, right, left);
}

void multiply_transposed(MatrixView matrix, std::span<const float> left, std::span<float> right) {
  std::ranges::fill(right, 0.0f);
  HWY_DYNAMIC_DISPATCH(multiply_transposed_rows)(matrix, left, right);
}

void replace_by_product(MatrixView matrix, std::span<const float> left, std::span<const float> own,
                        std::span<const float> mean, std::span<float> rest) {
  HWY_DYNAMIC_DISPATCH(replace_rows_by_product)(matrix, left, own, mean, rest);
}

}  // namespace paceline::compress
#endif
