// The payload of selected elements: their indices, u32 and ascending, then their values, f32.
#pragma once

#include <cstring>

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

}  // namespace paceline::compress
