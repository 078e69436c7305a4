// Shapes of tensors in files: sizes from outside, so every product is checked.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/core/base/dtype.h"

namespace paceline::checkpoint {

using Extents = std::vector<std::uint64_t>;  // of a tensor, or a place in one; empty: a scalar's

inline constexpr std::size_t kMostDimensions = 64;  // as libtorch

// The elements of a tensor of this shape; nothing if 64 bits cannot hold them.
std::optional<std::uint64_t> elements_of(const Extents& shape);
// The bytes of such a tensor; nothing if 63 bits (a file's length) cannot hold them.
std::optional<std::uint64_t> byte_length(const Extents& shape, Dtype dtype);

// The part of a tensor that lies in one file: a box.
struct Box {
  Extents offset;  // of its first element in the tensor
  Extents shape;
  bool operator==(const Box&) const = default;
};

// Whether the boxes lie inside of a tensor of this shape and do not overlap.
bool fit(const Extents& shape, const std::vector<Box>& boxes);
// Whether the boxes lie inside of a tensor of this shape, do not overlap and leave nothing out.
bool tile(const Extents& shape, const std::vector<Box>& boxes);
// The elements that lie in both; nothing: there are none. REQUIRES: boxes of one tensor.
std::optional<Box> common_box(const Box& one, const Box& other);
// The boxes that hold the elements from `begin` up to `end`, counted row after row, of a tensor of
// this shape, in the order of these elements: at most two for each side but the last, and one.
// REQUIRES: begin <= end <= *elements_of(shape).
std::vector<Box> boxes_of_range(const Extents& shape, std::uint64_t begin, std::uint64_t end);

}  // namespace paceline::checkpoint
