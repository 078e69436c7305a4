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
__attribute__((target("sse4.2"))) std::uint32_t by_instruction(Bytes bytes, std::uint32_t crc) {
  std::uint64_t sum = crc;
  std::size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    sum = _mm_crc32_u64(sum, word);
  }
  auto rest = static_cast<std::uint32_t>(sum);
  for (; i < bytes.size(); ++i) rest = _mm_crc32_u8(rest, static_cast<unsigned char>(bytes[i]));
  return rest;
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
