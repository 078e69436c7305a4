// Random numbers without a state: each is a function of its purpose, so ranks draw the same ones in
// any order, and a restarted run draws them again.
//
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3",
// section 3.3): ten rounds that turn four words, under a key of two, into four. The layout of the
// counter is given in docs/compression/formats.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace paceline::compress {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key);

// Identifies a sequence of random numbers by its purpose.
struct RandomStream {
  static constexpr std::uint32_t kShared = 0xFFFFFF;  // the rank of sequences that all ranks share
  enum class Purpose : std::uint8_t {
    codec = 0,
    start = 1,
    sample = 2,
    dropout = 3,
    permutation = 16
  };

  std::uint64_t seed = 0;
  std::uint32_t tensor = 0;
  std::uint32_t step = 0;
  std::uint32_t rank = kShared;  // below 2^24
  Purpose purpose = Purpose::codec;
};

// Writes the words of elements `first` .. `first + words.size()` of the tensor. It is vectorised,
// with the same words on every processor. REQUIRES: first is a multiple of 4; elements are below
// 2^34.
void random_words(const RandomStream& stream, std::uint64_t first, std::span<std::uint32_t> words);

// words[i] is the word of element 4 * blocks[i]. REQUIRES: equal counts.
void random_words_at(const RandomStream& stream, std::span<const std::uint32_t> blocks,
                     std::span<std::uint32_t> words);

}  // namespace paceline::compress
