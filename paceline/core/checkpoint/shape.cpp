#include "paceline/core/checkpoint/shape.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace paceline::checkpoint {
namespace {

bool lies_inside(const Extents& shape, const Box& box) {
  if (box.offset.size() != shape.size() || box.shape.size() != shape.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (box.offset[d] > shape[d] || box.shape[d] > shape[d] - box.offset[d]) return false;
  }
  return true;
}

bool is_empty(const Box& box) {
  return std::ranges::find(box.shape, 0U) != box.shape.end();
}

// Adds the boxes of a range of the elements that lie at `place` in the sides before `side`.
void add_range(const Extents& shape, std::size_t side, const Extents& place, std::uint64_t begin,
               std::uint64_t end, std::vector<Box>& boxes) {
  if (begin == end) return;
  std::uint64_t row = 1;  // the elements of one step along this side
  for (std::size_t d = side + 1; d < shape.size(); ++d) row *= shape[d];
  const auto add_within_row = [&](std::uint64_t first, std::uint64_t last) {
    Extents inside = place;
    inside[side] = first / row;
    add_range(shape, side + 1, inside, first % row, last - inside[side] * row, boxes);
  };
  const std::uint64_t first_whole = (begin + row - 1) / row, past_whole = end / row;
  if (first_whole > past_whole) return add_within_row(begin, end);
  if (begin % row != 0) add_within_row(begin, first_whole * row);
  if (first_whole < past_whole) {
    Box box{.offset = place, .shape = shape};
    box.offset[side] = first_whole;
    for (std::size_t d = 0; d < side; ++d) box.shape[d] = 1;
    box.shape[side] = past_whole - first_whole;
    boxes.push_back(std::move(box));
  }
  if (end % row != 0) add_within_row(past_whole * row, end);
}

}  // namespace

std::vector<Box> boxes_of_range(const Extents& shape, std::uint64_t begin, std::uint64_t end) {
  std::vector<Box> boxes;
  if (shape.empty() && begin < end) boxes.push_back({});  // a scalar's
  else add_range(shape, 0, Extents(shape.size(), 0), begin, end, boxes);
  return boxes;
}

std::optional<std::uint64_t> elements_of(const Extents& shape) {
  std::uint64_t elements = 1;
  bool fits = true;
  for (const std::uint64_t length : shape)
    fits = !__builtin_mul_overflow(elements, length, &elements) && fits;
  // A tensor without elements has none, however long its other sides are.
  if (std::ranges::find(shape, 0U) != shape.end()) return 0;
  return fits ? std::optional(elements) : std::nullopt;
}

std::optional<std::uint64_t> byte_length(const Extents& shape, Dtype dtype) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const auto elements = elements_of(shape);
  std::uint64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(*elements, size_of(dtype), &bytes) || bytes > kMost)
    return std::nullopt;
  return bytes;
}

// No sum overflows, because both lie inside of a tensor.
std::optional<Box> common_box(const Box& one, const Box& other) {
  Box common = {Extents(one.offset.size()), Extents(one.offset.size())};
  for (std::size_t d = 0; d < one.shape.size(); ++d) {
    const std::uint64_t begin = std::max(one.offset[d], other.offset[d]);
    const std::uint64_t end =
        std::min(one.offset[d] + one.shape[d], other.offset[d] + other.shape[d]);
    if (begin >= end) return std::nullopt;
    common.offset[d] = begin;
    common.shape[d] = end - begin;
  }
  return common;
}

bool fit(const Extents& shape, const std::vector<Box>& boxes) {
  const auto all = elements_of(shape);
  if (!all) return false;
  std::uint64_t held = 0;
  for (const Box& box : boxes) {
    if (!lies_inside(shape, box)) return false;
    held += *elements_of(box.shape);
    if (held > *all) return false;
  }
  // Sorted by their first side, only boxes whose sides meet there are compared.
  std::vector<const Box*> sorted;
  for (const Box& box : boxes)
    if (!is_empty(box)) sorted.push_back(&box);
  std::ranges::sort(sorted, {}, [](const Box* box) { return box->offset; });
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    for (std::size_t k = i + 1; k < sorted.size(); ++k) {
      const bool is_past =
          !shape.empty() && sorted[k]->offset[0] >= sorted[i]->offset[0] + sorted[i]->shape[0];
      if (is_past) break;
      if (common_box(*sorted[i], *sorted[k])) return false;
    }
  }
  return true;
}

// Boxes that lie inside and do not overlap leave nothing out if they hold as many elements.
bool tile(const Extents& shape, const std::vector<Box>& boxes) {
  if (boxes.empty() || !fit(shape, boxes)) return false;
  std::uint64_t held = 0;
  for (const Box& box : boxes) held += *elements_of(box.shape);
  return held == *elements_of(shape);
}

}  // namespace paceline::checkpoint
