// Output that is longer than the near caches: written block by block through a small one, past the
// caches, because bringing in the memory that is to be overwritten takes as long as writing it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "paceline/core/base/bytes.h"

namespace paceline::compress {

// Copies past the caches; other threads see it after finish_copies. REQUIRES: equal lengths, no
// overlap.
void copy_past_caches(Bytes from, MutableBytes to);
void finish_copies();

// Calls decode(first, block) for blocks of 4096 values (the last one may be shorter), which then
// stand at values[first] and behind. It returns false to end at once; so does this.
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
