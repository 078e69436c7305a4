// Types for memory: spans of bytes, and typed views that own nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "paceline/core/base/dtype.h"

namespace paceline {

using Bytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// The place of a buffer: the host's memory, or that of the CUDA device with this number, where
// `stream` (a cudaStream_t; null: the usual one) writes and reads it.
struct Memory {
  enum class Kind : std::uint8_t { host, cuda } kind = Kind::host;
  int device = 0;
  void* stream = nullptr;
  bool operator==(const Memory&) const = default;
};

// `count` elements of `dtype` at `data`. It is a view: the memory must outlive every operation that
// the view is handed to.
struct ConstBuffer {
  const std::byte* data = nullptr;
  std::size_t count = 0;
  Dtype dtype = Dtype::f32;
  Memory memory = {};

  std::size_t size_bytes() const { return count * size_of(dtype); }
  Bytes bytes() const { return {data, size_bytes()}; }
};

struct Buffer {
  std::byte* data = nullptr;
  std::size_t count = 0;
  Dtype dtype = Dtype::f32;
  Memory memory = {};

  std::size_t size_bytes() const { return count * size_of(dtype); }
  MutableBytes bytes() const { return {data, size_bytes()}; }
  operator ConstBuffer() const { return {data, count, dtype, memory}; }
};

// Views of contiguous C++ ranges: `buffer_of(std::vector<float>&)`.
template <typename T, std::size_t N>
Buffer buffer_of(std::span<T, N> values) {
  return {std::as_writable_bytes(values).data(), values.size(), dtype_of<T>()};
}
template <typename Range>
requires requires(Range& r) {
  std::span(r);
}
Buffer buffer_of(Range& values) {
  return buffer_of(std::span(values));
}

template <typename T, std::size_t N>
ConstBuffer const_buffer_of(std::span<T, N> values) {
  return {std::as_bytes(values).data(), values.size(), dtype_of<std::remove_const_t<T>>()};
}
template <typename Range>
requires requires(const Range& r) {
  std::span(r);
}
ConstBuffer const_buffer_of(const Range& values) {
  return const_buffer_of(std::span(values));
}

template <typename T>
Bytes bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

}  // namespace paceline
