#include "paceline/core/base/suggestion.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace paceline {
namespace {

// The number of letters to insert, remove or replace to turn one into the other.
std::size_t distance(std::string_view one, std::string_view other) {
  std::vector<std::size_t> row(other.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < one.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < other.size(); ++j) {
      const std::size_t replaced = diagonal + (one[i] == other[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string suggestion(std::string_view wrong, const std::vector<std::string>& candidates) {
  const std::size_t far = 1 + wrong.size() / 3;
  std::size_t nearest = far + 1;
  const std::string* best = nullptr;
  for (const std::string& candidate : candidates) {
    const std::size_t away = distance(wrong, candidate);
    if (away >= nearest || away >= candidate.size()) continue;
    nearest = away;
    best = &candidate;
  }
  return best == nullptr ? std::string() : fmt::format("; did you mean {}?", *best);
}

}  // namespace paceline
