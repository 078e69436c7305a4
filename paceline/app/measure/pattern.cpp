#include "paceline/app/measure/pattern.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "paceline/core/base/half.h"

namespace paceline::measure {
namespace {

constexpr std::size_t kPeriod = 61;          // no chunk's or vector's length is a multiple of it
constexpr std::size_t kTile = 16 * kPeriod;  // elements that are compared in one go

// Every whole number up to this one is exact in the type.
int largest_exact(Dtype dtype) {
  switch (dtype) {
    case Dtype::i8: return 127;
    case Dtype::u8: return 255;
    case Dtype::bf16: return 256;
    case Dtype::f16: return 2048;
    default: return 1 << 15;
  }
}

template <typename T>
void store(std::span<const int> values, MutableBytes where) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T value = static_cast<T>(values[i]);
    std::memcpy(where.data() + i * sizeof value, &value, sizeof value);
  }
}

void store(Dtype dtype, std::span<const int> values, MutableBytes where) {
  switch (dtype) {
    case Dtype::f64: return store<double>(values, where);
    case Dtype::f32: return store<float>(values, where);
    case Dtype::i64: return store<std::int64_t>(values, where);
    case Dtype::i32: return store<std::int32_t>(values, where);
    case Dtype::i16: return store<std::int16_t>(values, where);
    case Dtype::i8: return store<std::int8_t>(values, where);
    case Dtype::u8: return store<std::uint8_t>(values, where);
    case Dtype::boolean: return store<bool>(values, where);
    case Dtype::f16:
    case Dtype::bf16: return narrow(dtype, std::vector<float>(values.begin(), values.end()), where);
  }
}

}  // namespace

Pattern::Pattern(Dtype dtype, int ranks, int iteration)
    : dtype_(dtype),
      ranks_(ranks),
      iteration_(iteration),
      values_(dtype != Dtype::boolean && 7 * ranks <= largest_exact(dtype) ? 8 : 2) {}

int Pattern::value(int rank, std::size_t element) const {
  return (static_cast<int>(element % kPeriod) + 3 * rank + 5 * (iteration_ % 8)) % values_;
}

std::vector<std::byte> Pattern::tile(int source, std::size_t from, std::size_t count) const {
  std::vector<int> values(std::min(count, kTile));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int first = source == kSumOfAll ? 0 : source;
    const int last = source == kSumOfAll ? ranks_ - 1 : source;
    for (int rank = first; rank <= last; ++rank) values[i] += value(rank, from + i);
  }
  std::vector<std::byte> bytes(values.size() * size_of(dtype_));
  store(dtype_, values, bytes);
  return bytes;
}

void Pattern::fill(MutableBytes where, int source, std::size_t from) const {
  const auto whole = tile(source, from, where.size() / size_of(dtype_));
  while (!where.empty()) {
    const std::size_t length = std::min(where.size(), whole.size());
    std::memcpy(where.data(), whole.data(), length);
    where = where.subspan(length);
  }
}

std::size_t Pattern::wrong(Bytes found, int source, std::size_t from) const {
  const std::size_t element = size_of(dtype_);
  const auto whole = tile(source, from, found.size() / element);
  std::size_t count = 0;
  while (!found.empty()) {
    const std::size_t length = std::min(found.size(), whole.size());
    if (std::memcmp(found.data(), whole.data(), length) != 0) {
      for (std::size_t at = 0; at < length; at += element)
        count += std::memcmp(found.data() + at, whole.data() + at, element) != 0;
    }
    found = found.subspan(length);
  }
  return count;
}

}  // namespace paceline::measure
