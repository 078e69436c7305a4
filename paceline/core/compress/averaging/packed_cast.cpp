#include "paceline/core/compress/averaging/packed_cast.h"

#include <utility>

namespace paceline::compress {
namespace {

Exchange mean_in_place(const Buffer& elements) {
  return {.input = elements, .output = elements, .op = ReduceOp::average};
}

}  // namespace

std::optional<Exchange> PackedCast::begin(std::span<float>, std::uint32_t) {
  has_cast_to_come_ = whole_.count > 0 && cast_.count > 0;
  return mean_in_place(whole_.count > 0 ? whole_ : cast_);
}

Result<std::optional<Exchange>> PackedCast::next() {
  if (!std::exchange(has_cast_to_come_, false)) return std::optional<Exchange>();
  return std::optional(mean_in_place(cast_));
}

}  // namespace paceline::compress
