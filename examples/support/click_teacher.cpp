#include "click_teacher.h"

#include <algorithm>
#include <cmath>

namespace examples {

using paceline::mix;
using paceline::SeededNumbers;

namespace {

// Categories of each column.
constexpr std::array<std::uint64_t, kClickCategories> kColumnSizes = {
    8,   60,    12, 120, 16,    200, 10,  100,   1'000, 10,  100,   1'000, 10,
    100, 1'000, 10, 100, 1'000, 10,  100, 1'000, 10,    100, 1'000, 1'000, 10'000};

constexpr double kLogitOfAll = -3.6, kOfPairs = 0.8, kOfCategories = 0.15, kOfNumbers = 0.6;
// Added to kinds, which else would have a mean of zero: so that each category of a pair tells a
// little by itself, and a model finds the pairs sooner.
constexpr double kShiftOfKinds = 1.0;
constexpr std::size_t kTellingNumbers = 4;

enum ClickStream : std::uint64_t { kLineStream, kNameStream, kWeightStream };

// The share of the lines that have the category of this rank, of a column of so many.
double share_of_rank(std::uint64_t rank, std::uint64_t size) {
  const auto r = static_cast<double>(rank);
  return std::log((r + 2) / (r + 1)) / std::log(static_cast<double>(size) + 1);
}

// Draws a rank with these shares: 1 + rank is uniform on a scale of logarithms.
std::uint64_t drawn_rank(double uniform, std::uint64_t size) {
  const double drawn = std::exp(uniform * std::log(static_cast<double>(size) + 1));
  return std::min(static_cast<std::uint64_t>(drawn) - 1, size - 1);
}

// Kinds alternate, so that each has frequent categories.
double sign_of(std::uint64_t rank) {
  return rank % 2 == 0 ? 1 : -1;
}

// Mean 0, variance 1; a pure function of the key.
double normal_of(std::uint64_t key) {
  SeededNumbers numbers(key);
  constexpr int kSummed = 4;
  double sum = 0;
  for (int i = 0; i < kSummed; ++i) sum += numbers.unit() - 0.5;
  return sum * std::sqrt(12.0 / kSummed);
}

}  // namespace

ClickTeacher::ClickTeacher(std::uint64_t seed) : seed_(seed), kinds_() {
  for (std::size_t column = 0; column < kinds_.size(); ++column) {
    Kinds& kinds = kinds_[column];
    const std::uint64_t size = kColumnSizes[column];
    for (std::uint64_t rank = 0; rank < size; ++rank)
      kinds.mean += sign_of(rank) * share_of_rank(rank, size);
    kinds.deviation = std::sqrt(1 - kinds.mean * kinds.mean);
  }
}

double ClickTeacher::kind_of(std::size_t column, std::uint64_t rank) const {
  const Kinds& kinds = kinds_[column];
  return (sign_of(rank) - kinds.mean) / kinds.deviation + kShiftOfKinds;
}

std::uint32_t ClickTeacher::category(std::size_t column, std::uint64_t rank) const {
  return static_cast<std::uint32_t>(mix(mix(mix(seed_, kNameStream), column), rank));
}

ClickTeacher::Drawn ClickTeacher::draw(std::uint64_t number) const {
  SeededNumbers numbers(mix(mix(seed_, kLineStream), number));
  Drawn drawn{.logit = kLogitOfAll};
  for (std::size_t i = 0; i < kClickNumbers; ++i) {
    constexpr std::array<double, 4> kLargest = {10, 100, 1'000, 100'000};
    const double uniform = numbers.unit();
    if (numbers.unit() < 0.05 * static_cast<double>(i % 4)) continue;  // not known
    const double most = kLargest[i % kLargest.size()];
    // Counts, most of which are small; one column begins with -1, as one of Criteo's does.
    const double count = std::exp(uniform * std::log(most + 1)) - (i == 1 ? 2 : 1);
    drawn.line.numbers[i] = static_cast<std::int32_t>(std::floor(count));
    if (i < kTellingNumbers) drawn.logit += kOfNumbers * (uniform - 0.5);
  }
  double other_kind = 0;
  for (std::size_t column = 0; column < kClickCategories; ++column) {
    const std::uint64_t rank = drawn_rank(numbers.unit(), kColumnSizes[column]);
    const bool is_known = numbers.unit() >= 0.02 * static_cast<double>(1 + column % 3);
    if (is_known) {
      drawn.line.categories[column] = category(column, rank);
      drawn.logit += kOfCategories * normal_of(mix(mix(mix(seed_, kWeightStream), column), rank));
    }
    if (column >= kinds_.size()) continue;
    const double kind = is_known ? kind_of(column, rank) : 0;
    if (column % 2 == 1) drawn.logit += kOfPairs * other_kind * kind;
    other_kind = kind;
  }
  drawn.line.clicked = numbers.unit() < 1 / (1 + std::exp(-drawn.logit));
  return drawn;
}

}  // namespace examples
