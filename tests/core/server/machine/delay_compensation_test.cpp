// The values that a gradient belongs to, and the term that brings it to others.
#include "paceline/core/server/machine/delay_compensation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>

namespace paceline::server {
namespace {

Bytes bytes_of_row(const std::vector<double>& values) {
  return std::as_bytes(std::span(values));
}
DelayCompensation::Row row_of(std::uint32_t pull, const std::vector<double>& values) {
  const Bytes bytes = bytes_of_row(values);
  return {.pull = pull, .version = pull, .values = {bytes.begin(), bytes.end()}};
}
double compensated(const DelayCompensation& rows, const Compensation& by, int worker,
                   double gradient, double now, double* mean_square = nullptr) {
  const auto squares =
      mean_square == nullptr ? MutableBytes() : std::as_writable_bytes(std::span(mean_square, 1));
  rows.compensate(by, Dtype::f64, worker, std::as_writable_bytes(std::span(&gradient, 1)),
                  std::as_bytes(std::span(&now, 1)), squares);
  return gradient;
}

TEST(DelayCompensation, AddsTheSquareOfTheGradientTimesWhatHasMovedSinceItsWorkerPulled) {
  const Compensation by = {.lambda = 0.5};
  DelayCompensation rows;
  rows.begin(bytes_of_row({1}));
  EXPECT_EQ(compensated(rows, by, 0, 3, 5), 3 + 0.5 * 9 * 4) << "it has the first values";
  rows.answer(0, row_of(1, {2}));
  EXPECT_EQ(compensated(rows, by, 0, 3, 5), 3 + 0.5 * 9 * 3);
  EXPECT_EQ(compensated(rows, by, 1, 3, 5), 3 + 0.5 * 9 * 4) << "another worker";
  EXPECT_EQ(compensated(rows, by, 0, 3, 2), 3) << "nothing has moved";
}

TEST(DelayCompensation, AnAdaptiveOneDividesByTheRootOfTheMeanSquare) {
  const Compensation by = {.lambda = 2, .is_adaptive = true, .decay = 0.95};
  DelayCompensation rows;
  rows.begin(bytes_of_row({1}));
  double square = 4;
  const double found = compensated(rows, by, 0, 3, 5, &square);
  EXPECT_NEAR(square, 0.95 * 4 + 0.05 * 9, 1e-15);
  EXPECT_NEAR(found, 3 + 2 / std::sqrt(square + 1e-7) * 9 * 4, 1e-13);
}

TEST(DelayCompensation, ARepeatedPullHasTheRowThatItHadBefore) {
  DelayCompensation rows;
  rows.begin(bytes_of_row({1}));
  EXPECT_EQ(rows.answer(0, row_of(1, {2})).values, row_of(1, {2}).values);
  auto newer = row_of(1, {3});
  newer.version = 7;
  EXPECT_EQ(rows.answer(0, newer).version, 1u);
  EXPECT_EQ(rows.answer(0, newer).values, row_of(1, {2}).values);
  EXPECT_EQ(rows.answer(0, row_of(2, {3})).values, row_of(2, {3}).values);
}

TEST(DelayCompensation, AfterAMomentAtWhichAllWereQuietAllHaveItsValues) {
  DelayCompensation rows;
  rows.begin(bytes_of_row({1}));
  rows.answer(0, row_of(1, {2}));
  rows.begin(bytes_of_row({10}));
  EXPECT_EQ(compensated(rows, {.lambda = 1}, 0, 3, 11), 3 + 9);
}

}  // namespace
}  // namespace paceline::server
