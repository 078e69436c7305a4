#include "tests/support/numbers.h"

#include <algorithm>
#include <cstring>

#include "paceline/core/base/half.h"
#include "paceline/core/base/seed.h"

namespace paceline::test {
namespace {

template <typename T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

void encode(Dtype dtype, double value, std::byte* at) {
  const auto whole = static_cast<std::int64_t>(value);
  const float single = static_cast<float>(value);
  switch (dtype) {
    case Dtype::f64: return put(at, value);
    case Dtype::f32: return put(at, single);
    case Dtype::f16:
    case Dtype::bf16: return narrow(dtype, {&single, 1}, {at, 2});
    case Dtype::i64: return put(at, whole);
    case Dtype::i32: return put(at, static_cast<std::int32_t>(whole));
    case Dtype::i16: return put(at, static_cast<std::int16_t>(whole));
    case Dtype::i8: return put(at, static_cast<std::int8_t>(whole));
    case Dtype::u8: return put(at, static_cast<std::uint8_t>(whole));
    case Dtype::boolean: return put(at, static_cast<std::uint8_t>(value != 0));
  }
}

// 1 or 2: a product over eight ranks is at most 256. A bool is true for every other number.
double number(Dtype dtype, int rank, std::size_t i) {
  const auto bit = mix(mix(i, static_cast<std::uint64_t>(rank)), 5) >> 63;
  return static_cast<double>(dtype == Dtype::boolean ? bit : bit + 1);
}

double combined(ReduceOp op, double one, double other) {
  const auto a = static_cast<std::int64_t>(one), b = static_cast<std::int64_t>(other);
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average: return one + other;
    case ReduceOp::product: return one * other;
    case ReduceOp::min: return std::min(one, other);
    case ReduceOp::max: return std::max(one, other);
    case ReduceOp::band: return static_cast<double>(a & b);
    case ReduceOp::bor: return static_cast<double>(a | b);
    case ReduceOp::bxor: return static_cast<double>(a ^ b);
  }
  return 0;
}

double reduced_number(Dtype dtype, ReduceOp op, int ranks, std::size_t i) {
  double all = number(dtype, 0, i);
  for (int rank = 1; rank < ranks; ++rank) all = combined(op, all, number(dtype, rank, i));
  if (op != ReduceOp::average) return all;
  return dtype == Dtype::f64 ? all * (1.0 / ranks)
                             : static_cast<float>(all) * static_cast<float>(1.0 / ranks);
}

}  // namespace

template <typename Function>
MixedPrecision::MixedPrecision(Dtype dtype, const Function& element)
    : dtype_(dtype), twice_(2 * kPeriod * size_of(dtype)) {
  for (std::size_t i = 0; i < kPeriod; ++i) encode(dtype, element(i), &twice_[i * size_of(dtype)]);
  std::copy_n(twice_.begin(), twice_.size() / 2, twice_.begin() + std::ssize(twice_) / 2);
}

MixedPrecision MixedPrecision::of(Dtype dtype, int rank) {
  return {dtype, [=](std::size_t i) { return number(dtype, rank, i); }};
}

MixedPrecision MixedPrecision::reduced(Dtype dtype, ReduceOp op, int ranks) {
  return {dtype, [=](std::size_t i) { return reduced_number(dtype, op, ranks, i); }};
}

Bytes MixedPrecision::row_from(std::size_t first) const {
  return Bytes(twice_).subspan(first % kPeriod * size_of(dtype_), twice_.size() / 2);
}

void MixedPrecision::fill(Buffer buffer, std::size_t first) const {
  const Bytes row = row_from(first);
  const MutableBytes all = buffer.bytes();
  for (std::size_t at = 0; at < all.size(); at += row.size())
    std::memcpy(&all[at], row.data(), std::min(row.size(), all.size() - at));
}

std::size_t MixedPrecision::first_difference(ConstBuffer buffer, std::size_t first) const {
  const Bytes row = row_from(first), all = buffer.bytes();
  for (std::size_t at = 0; at < all.size(); at += row.size()) {
    const std::size_t length = std::min(row.size(), all.size() - at);
    if (std::memcmp(&all[at], row.data(), length) == 0) continue;
    const auto [found, wanted] = std::ranges::mismatch(all.subspan(at, length), row.first(length));
    return (at + static_cast<std::size_t>(wanted - row.begin())) / size_of(dtype_);
  }
  return buffer.count;
}

}  // namespace paceline::test
