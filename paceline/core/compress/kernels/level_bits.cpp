#include "paceline/core/compress/kernels/level_bits.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "paceline/core/base/check.h"

namespace paceline::compress {
namespace {

// Eight levels are the bytes of a word, and their bits become its lowest 8 * bits bits: each step
// moves the upper half of every 16, 32 and 64 bits down to the lower half, or back.
struct Steps {
  std::uint64_t lower[3];
  int shift[3];

  explicit Steps(int bits) {
    for (int i = 0; i < 3; ++i) {
      const int width = 8 << i, used = bits << i;
      const std::uint64_t one = (std::uint64_t{1} << used) - 1;
      lower[i] = 0;
      for (int at = 0; at < 64; at += 2 * width) lower[i] |= one << at;
      shift[i] = width - used;
    }
  }

  std::uint64_t packed(std::uint64_t word) const {
    for (int i = 0; i < 3; ++i) {
      const std::uint64_t upper = lower[i] << (8 << i);
      word = (word & lower[i]) | (word & upper) >> shift[i];
    }
    return word;
  }

  std::uint64_t spread(std::uint64_t word) const {
    for (int i = 2; i >= 0; --i) {
      const std::uint64_t upper = lower[i] << (8 << i);
      word = (word & lower[i]) | (word << shift[i] & upper);
    }
    return word;
  }
};

constexpr std::uint64_t kOnes = 0x0101010101010101;

// Extends the sign of each byte's `bits` bits to the whole byte.
std::uint64_t with_signs(std::uint64_t word, int bits) {
  const std::uint64_t sign = kOnes << (bits - 1);
  const std::uint64_t above = (word & sign) >> (bits - 1);  // 1 in every negative byte
  return word | above * (0x100u - (1u << bits));
}

// Loads the bytes from `at` on, and 0 beyond the last.
std::uint64_t load_word(Bytes bytes, std::size_t at) {
  std::uint64_t word = 0;
  if (bytes.size() - at >= sizeof word) std::memcpy(&word, bytes.data() + at, sizeof word);
  else std::memcpy(&word, bytes.data() + at, bytes.size() - at);
  return word;
}

void store_word(std::uint64_t word, std::size_t count, std::byte* target) {
  if (count == sizeof word) std::memcpy(target, &word, sizeof word);
  else std::memcpy(target, &word, count);
}

void require(std::size_t count, int bits, std::size_t bytes) {
  PACELINE_CHECK(2 <= bits && bits <= 8 && bytes == level_bytes(count, bits),
                 "{} levels of {} bits in {} bytes", count, bits, bytes);
}

// Tells whether no level is the one without an opposite.
bool are_levels(std::span<const std::int8_t> levels) {
  std::int8_t least = 0;
  for (const std::int8_t level : levels) least = std::min(least, level);
  return least > std::numeric_limits<std::int8_t>::min();
}

}  // namespace

void pack_levels(std::span<const std::int8_t> levels, int bits, MutableBytes packed) {
  require(levels.size(), bits, packed.size());
  if (packed.empty()) return;
  if (bits == 8) {
    std::memcpy(packed.data(), levels.data(), levels.size());
    return;
  }
  const Steps steps(bits);
  const auto width = static_cast<std::size_t>(bits);
  for (std::size_t i = 0, at = 0; i < levels.size(); i += 8, at += width) {
    const std::uint64_t word = steps.packed(load_word(std::as_bytes(levels), i));
    // If there is room, all 8 bytes are stored: the next word overwrites the surplus.
    store_word(word, packed.size() - at >= 8 ? 8 : std::min(width, packed.size() - at),
               &packed[at]);
  }
}

bool unpack_levels(Bytes packed, int bits, std::span<std::int8_t> levels) {
  require(levels.size(), bits, packed.size());
  if (packed.empty()) return true;
  if (bits == 8) {
    std::memcpy(levels.data(), packed.data(), packed.size());
    return are_levels(levels);
  }
  const Steps steps(bits);
  const auto width = static_cast<std::size_t>(bits);
  const MutableBytes bytes = std::as_writable_bytes(levels);
  const std::uint64_t lowest = kOnes << (bits - 1);  // the level without an opposite, in each byte
  const std::uint64_t used = (std::uint64_t{1} << 8 * width) - 1;
  std::uint64_t found = 0, word = 0;
  for (std::size_t i = 0, at = 0; i < levels.size(); i += 8, at += width) {
    word = steps.spread(load_word(packed, at) & used);
    const std::uint64_t other = word ^ lowest;  // a byte is 0 where the level is the lowest
    found |= (other - kOnes) & ~other & kOnes << 7;
    word = with_signs(word, bits);
    store_word(word, std::min<std::size_t>(8, levels.size() - i), &bytes[i]);
  }
  const std::size_t rest = levels.size() % 8;
  const bool clean = rest == 0 || word >> 8 * rest == 0;
  return found == 0 && clean;
}

}  // namespace paceline::compress
