#include "paceline/core/collective/staging/staged_pieces.h"

#include <algorithm>

namespace paceline::collective {
namespace {

std::size_t end_of(ElementRange range) {
  return range.offset + range.count;
}

// Calls `use(part, elements)` for each part that has elements in the range, which is not empty.
template <typename Parts, typename Use>
void for_parts_in(const Parts& parts, ElementRange range, Use use) {
  auto part = std::ranges::partition_point(
      parts, [&](const auto& one) { return end_of(one.range) <= range.offset; });
  for (; part != parts.end() && part->range.offset < end_of(range); ++part) {
    const std::size_t begin = std::max(part->range.offset, range.offset);
    use(*part, std::min(end_of(part->range), end_of(range)) - begin);
  }
}

}  // namespace

StagedPieces::StagedPieces(std::vector<StagedPiece> pieces)
    : pieces_(std::move(pieces)), left_(pieces_.size()), is_over_(pieces_.size()) {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    add(inputs_, pieces_[i].input, i);
    add(outputs_, pieces_[i].output, i);
    for (const ElementRange& range : pieces_[i].output) left_[i] += range.count;
  }
  const auto offset = [](const Part& part) { return part.range.offset; };
  std::ranges::sort(inputs_, {}, offset);
  std::ranges::sort(outputs_, {}, offset);
}

void StagedPieces::add(Parts& parts, const std::vector<ElementRange>& ranges,
                       std::size_t piece) const {
  for (const ElementRange& range : ranges)
    if (range.count > 0) parts.push_back({range, piece});
}

std::size_t StagedPieces::needed_for(ElementRange part) const {
  std::size_t needed = 0;
  if (part.count == 0) return needed;
  for_parts_in(inputs_, part,
               [&](const Part& one, std::size_t) { needed = std::max(needed, one.piece + 1); });
  return needed;
}

std::vector<std::size_t> StagedPieces::ended_by(ElementRange part) {
  std::vector<std::size_t> ended;
  if (part.count == 0) return ended;
  for_parts_in(outputs_, part, [&](const Part& one, std::size_t elements) {
    left_[one.piece] -= elements;
    if (left_[one.piece] > 0) return;
    is_over_[one.piece] = true;
    ended.push_back(one.piece);
  });
  return ended;
}

std::vector<std::size_t> StagedPieces::rest() {
  std::vector<std::size_t> rest;
  for (std::size_t i = 0; i < is_over_.size(); ++i) {
    if (!is_over_[i]) rest.push_back(i);
    is_over_[i] = true;
  }
  return rest;
}

}  // namespace paceline::collective
