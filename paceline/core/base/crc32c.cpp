#include "paceline/core/base/crc32c.h"

#include <array>
#include <cstring>
#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace paceline {
namespace {

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) ? 0x82f63b78u : 0u);
    table[i] = c;
  }
  return table;
}

std::uint32_t by_table(Bytes bytes, std::uint32_t crc) {
  static constexpr auto kTable = make_table();
  for (const std::byte b : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<std::uint32_t>(b)) & 0xff];
  return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint64_t add_word(std::uint64_t sum, const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, 8);
  return _mm_crc32_u64(sum, word);
}

__attribute__((target("sse4.2"))) std::uint32_t by_one_chain(Bytes bytes, std::uint32_t crc) {
  std::uint64_t sum = crc;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) sum = add_word(sum, bytes.data() + i);
  auto rest = static_cast<std::uint32_t>(sum);
  for (; i < bytes.size(); ++i) rest = _mm_crc32_u8(rest, static_cast<unsigned char>(bytes[i]));
  return rest;
}

// The instruction takes three cycles, but one may begin in each cycle, so three chains run side by
// side.
constexpr std::size_t kChain = 2048;

// Computes the effect of kChain zero bytes on a sum. It is linear in the sum's bits, so four
// lookups do it, one for each byte of the sum.
class ZerosBehind {
 public:
  ZerosBehind() {
    const std::array<std::byte, kChain> zeros{};
    for (std::uint32_t place = 0; place < 4; ++place) {
      for (std::uint32_t b = 0; b < 256; ++b)
        tables_[place][b] = by_one_chain(zeros, b << (8 * place));
    }
  }
  std::uint32_t operator()(std::uint64_t sum) const {
    return tables_[0][sum & 0xff] ^ tables_[1][(sum >> 8) & 0xff] ^ tables_[2][(sum >> 16) & 0xff] ^
           tables_[3][(sum >> 24) & 0xff];
  }

 private:
  std::array<std::array<std::uint32_t, 256>, 4> tables_;
};

__attribute__((target("sse4.2"))) std::uint32_t by_instruction(Bytes bytes, std::uint32_t crc) {
  if (bytes.size() >= 3 * kChain) {
    static const ZerosBehind zeros_behind;
    for (; bytes.size() >= 3 * kChain; bytes = bytes.subspan(3 * kChain)) {
      const std::byte* const data = bytes.data();
      std::uint64_t first = crc, second = 0, third = 0;
      for (std::size_t i = 0; i < kChain; i += 8) {
        first = add_word(first, data + i);
        second = add_word(second, data + kChain + i);
        third = add_word(third, data + 2 * kChain + i);
      }
      const std::uint32_t two = zeros_behind(first) ^ static_cast<std::uint32_t>(second);
      crc = zeros_behind(two) ^ static_cast<std::uint32_t>(third);
    }
  }
  return by_one_chain(bytes, crc);
}
#endif

}  // namespace

std::uint32_t crc32c(Bytes bytes, std::uint32_t crc) {
  crc = ~crc;
#if defined(__x86_64__)
  static const bool kFast = __builtin_cpu_supports("sse4.2");
  if (kFast) return ~by_instruction(bytes, crc);
#endif
  return ~by_table(bytes, crc);
}

}  // namespace paceline
