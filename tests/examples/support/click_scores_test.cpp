#include "examples/support/click_scores.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace examples {
namespace {

using paceline::SeededNumbers;

// Scores with many ties: of so many different values.
std::vector<ScoredLine> any_scored_lines(SeededNumbers& numbers) {
  std::vector<ScoredLine> lines(2 + numbers.below(60));
  const std::uint64_t values = 1 + numbers.below(20);
  for (ScoredLine& line : lines)
    line = {static_cast<double>(numbers.below(values)) - 3, numbers.below(3) == 0};
  lines[0].clicked = true;
  lines[1].clicked = false;
  std::shuffle(lines.begin(), lines.end(), numbers);
  return lines;
}

// The area by its meaning: each pair is looked at.
double share_of_pairs_won(const std::vector<ScoredLine>& lines) {
  double won = 0, pairs = 0;
  for (const ScoredLine& clicked : lines) {
    for (const ScoredLine& other : lines) {
      if (!clicked.clicked || other.clicked) continue;
      ++pairs;
      won += clicked.logit > other.logit ? 1 : clicked.logit == other.logit ? 0.5 : 0;
    }
  }
  return won / pairs;
}

TEST(ClickScores, TheAreaIsTheShareOfPairsInTheRightOrderAndTiesCountHalf) {
  SeededNumbers numbers(paceline::test::seed(4505));
  for (int i = 0; i < 500; ++i) {
    const auto lines = any_scored_lines(numbers);
    EXPECT_DOUBLE_EQ(area_under_curve(lines), share_of_pairs_won(lines));
  }
}

TEST(ClickScores, TheAreaDependsOnTheOrderOfScoresAloneAndTurnsWithIt) {
  SeededNumbers numbers(paceline::test::seed(4506));
  for (int i = 0; i < 500; ++i) {
    const auto lines = any_scored_lines(numbers);
    auto stretched = lines, turned = lines;
    for (ScoredLine& line : stretched) line.logit = std::exp(line.logit / 2) - 100;
    for (ScoredLine& line : turned) line.logit = -line.logit;
    EXPECT_EQ(area_under_curve(stretched), area_under_curve(lines));
    EXPECT_NEAR(area_under_curve(turned), 1 - area_under_curve(lines), 1e-12);
  }
}

TEST(ClickScores, WithoutBothKindsOfLinesThereIsNoArea) {
  EXPECT_TRUE(std::isnan(area_under_curve({{1, true}, {2, true}})));
  EXPECT_TRUE(std::isnan(area_under_curve({{1, false}})));
  EXPECT_TRUE(std::isnan(area_under_curve({})));
}

TEST(ClickScores, TheLossIsThatOfProbabilitiesAndFiniteForSureErrors) {
  SeededNumbers numbers(paceline::test::seed(4507));
  std::vector<ScoredLine> lines;
  double sum = 0;
  for (int i = 0; i < 500; ++i) {
    const ScoredLine line = {20 * numbers.unit() - 10, numbers.below(2) == 1};
    const double probability = 1 / (1 + std::exp(-line.logit));
    sum -= std::log(line.clicked ? probability : 1 - probability);
    lines.push_back(line);
    EXPECT_NEAR(log_loss(lines), sum / static_cast<double>(lines.size()), 1e-9);
  }
  const std::vector<ScoredLine> sure = {{-1e6, true}, {1e6, true}};
  EXPECT_EQ(log_loss(sure), 5e5);
}

}  // namespace
}  // namespace examples
