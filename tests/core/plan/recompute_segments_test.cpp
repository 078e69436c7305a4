#include "paceline/core/plan/recompute_segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::plan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<LayerCost> chain(int layers, double border, double inner) {
  return std::vector<LayerCost>(static_cast<std::size_t>(layers),
                                {.output_bytes = border, .saved_bytes = inner});
}

// Runs a forward and a backward pass over a chain, and counts the bytes that are alive.
double executed_peak(const std::vector<LayerCost>& layers, double input, int every) {
  std::map<int, double> inputs;
  const int n = static_cast<int>(layers.size());
  double alive = 0, most = 0;
  const auto at = [&](int layer) { return layers[static_cast<std::size_t>(layer)]; };
  for (int layer = 0; layer < n; layer += every)
    alive += inputs[layer] = layer == 0 ? input : at(layer - 1).output_bytes;
  for (auto segment = inputs.rbegin(); segment != inputs.rend(); ++segment) {
    double again = 0;
    for (int layer = segment->first; layer < std::min(segment->first + every, n); ++layer)
      most = std::max(most, alive + (again += at(layer).saved_bytes));
    alive -= segment->second;
  }
  return most;
}

TEST(RecomputeSegments, PeakOfEqualLayersIsTheClosedForm) {
  for (int n = 1; n < 80; ++n) {
    for (const auto& [border, inner] : {std::pair(1., 1.), {1., 4.}, {2., 34.}, {4., 1.}}) {
      double least = 1e300;
      for (int k = 1; k <= n; ++k) {
        const int segments = (n + k - 1) / k, last = n - (segments - 1) * k;
        double want = segments * border + last * inner;
        if (segments > 1) want = std::max(want, (segments - 1) * border + k * inner);
        EXPECT_DOUBLE_EQ(peak_bytes(chain(n, border, inner), border, {k}), want) << n << ", " << k;
        EXPECT_DOUBLE_EQ(kept_bytes(chain(n, border, inner), border, {k}), segments * border);
        least = std::min(least, want);
      }
      const double closed = 2 * std::sqrt(n * border * inner);
      EXPECT_GE(least, closed - border - 1e-9);
      EXPECT_LE(least, closed + border + inner);
    }
  }
}

TEST(RecomputeSegments, PeakOfUnequalLayersIsThatOfTheExecutedPasses) {
  SeededNumbers numbers(test::seed(40));
  for (int round = 0; round < 300; ++round) {
    std::vector<LayerCost> layers(1 + numbers.below(12));
    for (LayerCost& layer : layers) {
      layer.output_bytes = static_cast<double>(numbers.below(100));
      layer.saved_bytes = static_cast<double>(numbers.below(100));
    }
    const auto input = static_cast<double>(numbers.below(100));
    double least = 1e300;
    for (int k = 1; k <= static_cast<int>(layers.size()); ++k) {
      EXPECT_EQ(peak_bytes(layers, input, {k}), executed_peak(layers, input, k));
      least = std::min(least, peak_bytes(layers, input, {k}));
    }
    const Recompute best = best_recompute(layers, input);
    EXPECT_EQ(peak_bytes(layers, input, best), least);
    for (int k = 1; k < best.every; ++k) EXPECT_GT(peak_bytes(layers, input, {k}), least);
  }
}

TEST(RecomputeSegments, BestLengthFollowsTheSizesOfInputsAndOfSavedTensors) {
  EXPECT_EQ(best_recompute(chain(24, 1, 1), 1).every, 5) << "near the root of 24";
  EXPECT_EQ(best_recompute(chain(24, 2, 34), 2).every, 1) << "a transformer's layer saves much";
  // While many micro-batches are alive, their inputs weigh more than what is computed again.
  EXPECT_GT(best_recompute(chain(24, 1, 1), 1, 8).every, 5);
  EXPECT_EQ(best_recompute(chain(24, 1, 1), 1, 1000).every, 24);
}

TEST(RecomputeSegments, WithoutThemEverythingIsKept) {
  EXPECT_EQ(kept_bytes(chain(5, 3, 7), 3, {}), 35);
  EXPECT_EQ(peak_bytes(chain(5, 3, 7), 3, {}), 35);
}

TEST(RecomputeSegments, TextsAreThoseOfTheOption) {
  for (const char* text : {"none", "full", "every:3", "auto"})
    EXPECT_EQ(Recompute::parse(text).value().text(), text);
  EXPECT_EQ(Recompute::parse("every:1").value(), Recompute::parse("full").value());
  for (const char* text : {"", "every", "every:", "every:0", "every:-1", "every:2.5", "all"})
    EXPECT_THAT(Recompute::parse(text).error().what,
                AllOf(HasSubstr("every:K"), HasSubstr(std::string("\"") + text + "\"")));
}

TEST(RecomputeSegments, AnAutomaticLengthMustBeChosenFirst) {
  EXPECT_THROW(peak_bytes(chain(2, 1, 1), 1, {Recompute::kAutomatic}), Error);
  EXPECT_THROW(kept_bytes(chain(2, 1, 1), 1, {Recompute::kAutomatic}), Error);
}

}  // namespace
}  // namespace paceline::plan
