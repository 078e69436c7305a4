// "RANK:FACTOR", the text of --slow and --corrupt.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

struct RankAndFactor {
  int rank = 0;
  double factor = 1;  // may be NaN
};

// The whole text as a number; none where it is not one.
template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stopped != end) return std::nullopt;
  return number;
}

// None: the text is no "RANK:FACTOR". `drawn`: the rank that the word "drawn" stands for.
inline std::optional<RankAndFactor> rank_and_factor_in(std::string_view text,
                                                       std::optional<int> drawn = {}) {
  const auto colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view who = text.substr(0, colon);
  const auto factor = number_in<double>(text.substr(colon + 1));
  if (drawn && who == "drawn" && factor) return RankAndFactor{*drawn, *factor};
  const auto rank = number_in<int>(who);
  if (!rank || *rank < 0 || !factor) return std::nullopt;
  return RankAndFactor{*rank, *factor};
}
