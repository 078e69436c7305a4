// The payload of elements that were selected bin by bin and share one magnitude: the scale (f32),
// the number of elements that each bin sends, then for each of them its place in the bin and its
// sign as (place * 2 + negative). Counts and entries are bytes for bins of up to 127 elements, else
// u16.
#pragma once

#include <span>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/result.h"

namespace paceline::compress {

constexpr std::size_t kLongestBin = 32767;

struct SignedElement {
  std::uint32_t index = 0;
  bool negative = false;
};

struct BinnedSigns {
  float scale = 0;
  std::vector<SignedElement> elements;  // ascending
};

// 4 + w (ceil(elements / bin) + sent), where w is 1 or 2.
std::size_t binned_bytes(std::size_t elements, std::size_t bin, std::size_t sent);

// REQUIRES: payload.size() == binned_bytes(elements, bin, signs.elements.size()).
void write_binned(const BinnedSigns& signs, std::size_t elements, std::size_t bin,
                  MutableBytes payload);

// Does not trust the payload: a failure says what is wrong with it.
Result<BinnedSigns> read_binned(Bytes payload, std::size_t elements, std::size_t bin);

// Adds scale or -scale to each element that was sent.
void add_to(const BinnedSigns& signs, std::span<float> values);

}  // namespace paceline::compress
