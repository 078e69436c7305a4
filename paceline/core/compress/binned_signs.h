// The payload of elements that were selected bin by bin and all have one magnitude: the f32 scale,
// how many each bin of elements sends, then for each of them its place in the bin and its sign,
// (place * 2 + negative). Counts and entries are bytes for bins up to 127, else u16.
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

// 4 + w (ceil(elements / bin) + sent), w being 1 or 2.
std::size_t binned_bytes(std::size_t elements, std::size_t bin, std::size_t sent);

// REQUIRES: payload.size() is as above.
void write_binned(const BinnedSigns& signs, std::size_t elements, std::size_t bin,
                  MutableBytes payload);

// Never trusts the payload: a failure says what is wrong with it.
Result<BinnedSigns> read_binned(Bytes payload, std::size_t elements, std::size_t bin);

// values[i] += scale or -scale.
void add_to(const BinnedSigns& signs, std::span<float> values);

}  // namespace paceline::compress
