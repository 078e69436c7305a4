// The payload of selected elements: their indices, u32 and ascending, then their values, f32; and
// sums of such elements.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/result.h"

namespace paceline::compress {

// A view of a payload that open_sparse has checked.
class SparseView {
 public:
  explicit SparseView(Bytes payload) : payload_(payload) {}

  std::size_t size() const { return payload_.size() / 8; }
  std::uint32_t index(std::size_t i) const { return read<std::uint32_t>(4 * i); }
  float value(std::size_t i) const { return read<float>(4 * (size() + i)); }

 private:
  template <typename T>
  T read(std::size_t at) const {
    T value;
    std::memcpy(&value, payload_.data() + at, sizeof value);
    return value;
  }

  Bytes payload_;
};

constexpr std::size_t sparse_bytes(std::size_t count) {
  return 8 * count;
}

// Writes the elements `indices` of the tensor. REQUIRES: ascending, each once; payload.size() ==
// sparse_bytes(indices.size()).
void write_sparse(std::span<const float> values, std::span<const std::uint32_t> indices,
                  MutableBytes payload);

// Fails unless the payload holds finite values of elements below `elements`, ascending and each
// once.
Result<SparseView> open_sparse(Bytes payload, std::size_t elements);

// Sets all values to 0 except the elements of the view.
void scatter(const SparseView& sparse, std::span<float> values);

// A few elements and their values, summed over several ranks.
struct SparseSum {
  std::vector<std::uint32_t> indices;  // ascending, each once
  std::vector<float> values;

  static SparseSum of(std::span<const float> values, std::span<const std::uint32_t> indices);
  static SparseSum of(const SparseView& view);
  bool operator==(const SparseSum&) const = default;
};

// The union of both; elements in both are added, `left` first.
SparseSum merged(const SparseSum& left, const SparseSum& right);

// Leaves the `count` largest in `sum` (selection.h's order) and returns the others. `finite` is
// false if a value is not finite.
struct Dropped {
  bool finite = true;
  SparseSum others;
};
Dropped keep_largest(SparseSum& sum, std::size_t count);

// REQUIRES: payload.size() == sparse_bytes(sum.indices.size()).
void write(const SparseSum& sum, MutableBytes payload);

}  // namespace paceline::compress
