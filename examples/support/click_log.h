// Logs of clicks on advertisements in Criteo's format: a line for each time one was shown.
//
// A line has 40 fields with a tab between them: 1 if it was clicked or 0, then 13 whole numbers
// (counts, mostly), then 26 categories as hexadecimal numbers of 32 bits. Numbers and categories
// may be empty, which means that they are not known.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/paceline.h"

namespace examples {

inline constexpr std::size_t kClickNumbers = 13, kClickCategories = 26;

// A value; 320 bytes.
struct ClickLine {
  bool clicked = false;
  std::array<std::optional<std::int32_t>, kClickNumbers> numbers = {};
  std::array<std::optional<std::uint32_t>, kClickCategories> categories = {};
  bool operator==(const ClickLine&) const = default;
};

// The line as files have it, without its end; categories have eight digits.
std::string text_of(const ClickLine& line);

// A failure (misuse) tells which field is wrong, and what stands there in right ones.
paceline::Result<ClickLine> parse_click_line(std::string_view text);

// All lines of a file in memory. The last one may lack its end; those of Windows' files end with a
// carriage return too. A failure (misuse) names the file and the line: it cannot be read, has none,
// or a wrong one. THREAD: any.
paceline::Result<std::vector<ClickLine>> read_click_log(const std::string& path);

}  // namespace examples
