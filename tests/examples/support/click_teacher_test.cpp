#include "examples/support/click_teacher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "examples/support/click_scores.h"
#include "tests/support/seed.h"

namespace examples {
namespace {

constexpr std::uint64_t kDrawnLines = 100'000;

const std::vector<ClickTeacher::Drawn>& drawn_clicks() {
  static const auto all = [] {
    const ClickTeacher teacher(paceline::test::seed(4508));
    std::vector<ClickTeacher::Drawn> drawn;
    for (std::uint64_t i = 0; i < kDrawnLines; ++i) drawn.push_back(teacher.draw(i));
    return drawn;
  }();
  return all;
}

TEST(ClickTeacher, ALineIsAFunctionOfTheSeedAndItsNumberAlone) {
  const std::uint64_t seed = paceline::test::seed(4508);
  const ClickTeacher teacher(seed), other(seed + 1);
  int equal = 0;
  for (std::uint64_t i = 500; i-- > 0;) {  // in another order than above
    EXPECT_EQ(teacher.draw(i).line, drawn_clicks()[i].line);
    EXPECT_EQ(teacher.draw(i).logit, drawn_clicks()[i].logit);
    equal += other.draw(i).line == teacher.draw(i).line;
  }
  EXPECT_EQ(equal, 0);
}

// Within five standard deviations, in ten groups of lines by what the teacher says.
TEST(ClickTeacher, AsManyLinesAreClickedAsItsLogitsSay) {
  auto drawn = drawn_clicks();
  std::ranges::sort(drawn, {}, &ClickTeacher::Drawn::logit);
  constexpr std::size_t kGroups = 10, kEach = kDrawnLines / kGroups;
  for (std::size_t group = 0; group < kGroups; ++group) {
    double expected = 0, variance = 0, clicked = 0;
    for (std::size_t i = group * kEach; i < (group + 1) * kEach; ++i) {
      const double probability = 1 / (1 + std::exp(-drawn[i].logit));
      expected += probability;
      variance += probability * (1 - probability);
      clicked += drawn[i].line.clicked;
    }
    EXPECT_NEAR(clicked, expected, 5 * std::sqrt(variance)) << "group " << group;
  }
}

// The ranks from r to 2 r, counted from 1, have as many lines together as those from 2 r to 4 r.
TEST(ClickTeacher, CategoriesAreTheRarerTheMoreOfThemThereAre) {
  const ClickTeacher teacher(paceline::test::seed(4508));
  constexpr std::size_t kColumn = 25;
  constexpr std::uint64_t kSize = 10'000;  // of the column
  std::map<std::uint32_t, double> lines;
  double known = 0;
  for (const auto& drawn : drawn_clicks()) {
    if (const auto category = drawn.line.categories[kColumn]) ++known, ++lines[*category];
  }
  for (std::uint64_t first = 1; first <= kSize; first *= 2) {
    const std::uint64_t end = std::min(2 * first, kSize + 1);
    double count = 0;
    for (std::uint64_t rank = first; rank < end; ++rank)
      count += lines[teacher.category(kColumn, rank - 1)];
    const auto log = [](std::uint64_t number) { return std::log(static_cast<double>(number)); };
    const double expected = known * (log(end) - log(first)) / log(kSize + 1);
    EXPECT_NEAR(count, expected, 5 * std::sqrt(expected)) << "from rank " << first;
  }
}

// How much more (or less) the two do together than each alone: the contrast of the logit's means
// over the two most frequent categories of both columns.
double contrast_of(std::size_t one, std::size_t other) {
  const ClickTeacher teacher(paceline::test::seed(4508));
  double sums[2][2] = {}, counts[2][2] = {};
  for (const auto& drawn : drawn_clicks()) {
    for (const int i : {0, 1}) {
      for (const int j : {0, 1}) {
        const auto ranks = [](int rank) { return static_cast<std::uint64_t>(rank); };
        if (drawn.line.categories[one] != teacher.category(one, ranks(i)) ||
            drawn.line.categories[other] != teacher.category(other, ranks(j)))
          continue;
        sums[i][j] += drawn.logit;
        ++counts[i][j];
      }
    }
  }
  const auto mean = [&](int i, int j) { return sums[i][j] / counts[i][j]; };
  return mean(0, 0) - mean(0, 1) - mean(1, 0) + mean(1, 1);
}

TEST(ClickTeacher, TwoColumnsOfAPairDecideTogetherAndAllOthersEachAlone) {
  for (const std::size_t first : {0, 2, 4}) EXPECT_GT(contrast_of(first, first + 1), 2) << first;
  for (const auto& [one, other] :
       {std::pair<std::size_t, std::size_t>{1, 2}, {0, 3}, {3, 4}, {5, 6}, {0, 6}, {6, 9}})
    EXPECT_NEAR(contrast_of(one, other), 0, 0.6) << one << " and " << other;
}

TEST(ClickTeacher, SomeFieldsAreEmptyAndSomeNumbersNegative) {
  std::set<std::size_t> empty_numbers, empty_categories, negative;
  for (const auto& drawn : drawn_clicks()) {
    for (std::size_t i = 0; i < kClickNumbers; ++i) {
      if (!drawn.line.numbers[i]) empty_numbers.insert(i);
      else if (*drawn.line.numbers[i] < 0) negative.insert(i);
    }
    for (std::size_t i = 0; i < kClickCategories; ++i)
      if (!drawn.line.categories[i]) empty_categories.insert(i);
  }
  EXPECT_EQ(empty_numbers.size(), 9u);  // every fourth number is always known
  EXPECT_EQ(empty_categories.size(), kClickCategories);
  EXPECT_EQ(negative, std::set<std::size_t>{1});
}

TEST(ClickTeacher, ItsOwnLogitsAreGoodScoresAndNoPerfectOnes) {
  std::vector<ScoredLine> lines;
  for (const auto& drawn : drawn_clicks()) lines.push_back({drawn.logit, drawn.line.clicked});
  EXPECT_GT(area_under_curve(lines), 0.85);
  EXPECT_LT(area_under_curve(lines), 0.95);
}

}  // namespace
}  // namespace examples
