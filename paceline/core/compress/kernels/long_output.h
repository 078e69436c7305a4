// Output longer than the near caches is made block by block in a small buffer and written past the
// caches, because fetching the memory to be overwritten takes as long as writing it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "paceline/core/base/bytes.h"

namespace paceline::compress {

// Copies past the caches. Other threads see the bytes only after finish_copies. REQUIRES: equal
// lengths, no overlap.
void copy_past_caches(Bytes from, MutableBytes to);
void finish_copies();

// Calls decode(first, block) for each block of 4096 values (the last may be shorter), and stores
// the block at values[first]. If decode returns false, this stops and returns false.
template <typename Decode>
bool decode_in_blocks(std::span<float> values, Decode decode) {
  constexpr std::size_t kBlock = 4096, kLong = 1 << 18;
  alignas(64) std::array<float, kBlock> block;
  for (std::size_t at = 0; at < values.size(); at += kBlock) {
    const auto target = values.subspan(at, std::min(kBlock, values.size() - at));
    if (values.size() < kLong) {
      if (!decode(at, target)) return false;
      continue;
    }
    const auto place = std::span(block).first(target.size());
    if (!decode(at, place)) return false;
    copy_past_caches(std::as_bytes(place), std::as_writable_bytes(target));
  }
  finish_copies();
  return true;
}

}  // namespace paceline::compress
