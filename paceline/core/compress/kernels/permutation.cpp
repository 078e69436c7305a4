#include "paceline/core/compress/kernels/permutation.h"

#include <algorithm>
#include <array>
#include <bit>

#include "paceline/core/base/check.h"
#include "paceline/core/compress/kernels/counter_random.h"

namespace paceline::compress {
namespace {

constexpr int kRounds = 12;  // with 6, pairs among few elements are not equally likely

// A permutation of the numbers below 4^half_bits.
class Feistel {
 public:
  Feistel(std::size_t elements, const RandomStream& stream)
      : half_bits_((std::bit_width(std::max<std::size_t>(elements, 2) - 1) + 1) / 2),
        stream_(stream) {}

  void permute(std::span<std::uint32_t> numbers) const {
    constexpr std::size_t kBlock = 512;
    std::array<std::uint32_t, kBlock> low, high, words;
    const auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << half_bits_) - 1);
    for (std::size_t at = 0; at < numbers.size(); at += kBlock) {
      const auto block = numbers.subspan(at, std::min(kBlock, numbers.size() - at));
      for (std::size_t i = 0; i < block.size(); ++i) {
        low[i] = block[i] & mask;
        high[i] = block[i] >> half_bits_;
      }
      for (int round = 0; round < kRounds; ++round) {
        random_words_at(stream_of(round), std::span(low).first(block.size()),
                        std::span(words).first(block.size()));
        for (std::size_t i = 0; i < block.size(); ++i) {
          const std::uint32_t next = high[i] ^ (words[i] & mask);
          high[i] = low[i];
          low[i] = next;
        }
      }
      for (std::size_t i = 0; i < block.size(); ++i) block[i] = high[i] << half_bits_ | low[i];
    }
  }

 private:
  RandomStream stream_of(int round) const {
    RandomStream stream = stream_;
    stream.purpose = static_cast<RandomStream::Purpose>(
        static_cast<int>(RandomStream::Purpose::permutation) + round);
    return stream;
  }

  int half_bits_;
  RandomStream stream_;
};

}  // namespace

std::vector<std::uint32_t> random_indices(std::size_t elements, std::size_t count,
                                          std::uint64_t seed, std::uint32_t tensor,
                                          std::uint32_t step) {
  PACELINE_CHECK(count <= elements && elements <= std::uint64_t{1} << 32,
                 "{} random indices of {} elements", count, elements);
  const Feistel feistel(elements, {.seed = seed, .tensor = tensor, .step = step});
  std::vector<std::uint32_t> indices(count), walking(count);
  for (std::size_t i = 0; i < count; ++i) walking[i] = static_cast<std::uint32_t>(i);
  auto arrived = indices.begin();
  while (!walking.empty()) {
    feistel.permute(walking);
    const auto beyond = std::ranges::stable_partition(
        walking, [&](std::uint32_t index) { return index < elements; });
    arrived = std::copy(walking.begin(), beyond.begin(), arrived);
    walking.erase(walking.begin(), beyond.begin());
  }
  std::ranges::sort(indices);
  return indices;
}

}  // namespace paceline::compress
