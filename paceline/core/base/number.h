// Reads a number out of a text that comes from a user, a file or a launcher.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace paceline {

// The number that is the whole text: nothing else may stand before or behind it, not even a space
// or a plus sign. Returns nothing if it is no number or does not fit into T.
template <typename T>
std::optional<T> number_in(std::string_view text) {
  T value = {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace paceline
