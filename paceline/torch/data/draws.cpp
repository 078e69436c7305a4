#include "paceline/torch/data/draws.h"

#include <array>

#include "paceline/core/compress/compress.h"

namespace paceline::data {
namespace {

__extension__ using DrawnProduct = unsigned __int128;

}  // namespace

std::int64_t drawn_sample(std::uint64_t place, std::int64_t samples, std::uint64_t seed,
                          std::int64_t epoch) {
  const auto low_word = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  const std::array<std::uint32_t, 2> key = {low_word(seed),
                                            low_word(static_cast<std::uint64_t>(epoch))};
  const auto count = static_cast<std::uint64_t>(samples);
  const std::uint64_t unfair = (0 - count) % count;  // 2^64 mod count
  for (std::uint32_t attempt = 0;; ++attempt) {
    const auto words = compress::philox({low_word(place), low_word(place >> 32), attempt, 0}, key);
    const std::uint64_t word = words[0] | std::uint64_t{words[1]} << 32;
    const DrawnProduct product = DrawnProduct{word} * count;
    if (static_cast<std::uint64_t>(product) >= unfair)
      return static_cast<std::int64_t>(static_cast<std::uint64_t>(product >> 64));
  }
}

}  // namespace paceline::data
