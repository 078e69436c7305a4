// Lines that tell whether they arrived whole: written by launch_probe, checked by run_output_test.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace paceline::test {

inline std::uint32_t checksum(std::string_view text) {
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

// "<rank> <index> <letters> <checksum of all before>"
inline std::string checked_line(int rank, int index, std::size_t letters) {
  std::string text = fmt::format("{} {} ", rank, index);
  for (std::size_t i = 0; i < letters; ++i)
    text += static_cast<char>('a' + (i * 7 + static_cast<std::size_t>(index)) % 26);
  return text + fmt::format(" {:08x}", checksum(text));
}

inline bool is_whole(std::string_view line) {
  const auto space = line.rfind(' ');
  return space != std::string_view::npos &&
         line.substr(space + 1) == fmt::format("{:08x}", checksum(line.substr(0, space)));
}

}  // namespace paceline::test
