#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "paceline/core/pipeline/versions/stage_versions.h"

namespace paceline::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

VersionRule rule_of(std::string_view schedule, const Placement& placement, int micro_batches = 1) {
  return version_rule(parse_schedule(schedule).value(), placement, micro_batches).value();
}

TEST(VersionRule, AStashedStageLagsByTheStagesBehindIt) {
  const VersionRule rule = rule_of("pipedream", {.ranks = 4, .stages = 4});
  for (int stage = 0; stage < 4; ++stage) {
    for (int j = 0; j < 20; ++j) EXPECT_EQ(rule.version_of(stage, j), std::max(0, j - (3 - stage)));
    EXPECT_EQ(rule.most_kept(stage), 4 - stage);
  }
}

TEST(VersionRule, WithVerticalSyncAllStagesLagByTheWholePipeline) {
  const VersionRule rule = rule_of("pipedream:sync=vertical", {.ranks = 4, .stages = 4});
  for (int stage = 0; stage < 4; ++stage)
    for (int j = 0; j < 20; ++j) EXPECT_EQ(rule.version_of(stage, j), std::max(0, j - 3));
}

TEST(VersionRule, TheMicroBatchesOfABatchShareTheVersionBeforeTheNewest) {
  const VersionRule rule = rule_of("pipedream_2bw", {.ranks = 4, .stages = 4}, 5);
  for (int g = 0; g < 40; ++g) {
    EXPECT_EQ(rule.version_of(2, g), std::max(0, g / 5 - 1));
    EXPECT_EQ(rule.made_by(2, g), g / 5 + 1);
  }
}

TEST(VersionRule, ReplicasUseTheVersionOfARoundEarlier) {
  const VersionRule rule = rule_of("pipedream", {.ranks = 4, .stages = 3, .replicas = {2, 1, 1}});
  EXPECT_EQ(rule.in_flight_limit(0), 2);
  for (int j = 0; j < 20; ++j) {
    EXPECT_EQ(rule.version_of(0, j), std::max(0, j / 2 - 2));
    EXPECT_EQ(rule.version_of(1, j), std::max(0, j - 1));
    EXPECT_EQ(rule.version_of(2, j), j);
  }
  EXPECT_EQ(rule.most_kept(0), 3);
}

// Gradient descent on w^2 / 2 with a fixed delay d is stable below 2 sin(pi / (2 (2 d + 1))).
double size_after_descent(const VersionRule& rule, double step) {
  std::vector<double> history = {1};
  for (int j = 0; j < 60'000; ++j)
    history.push_back(history.back() -
                      step * history[static_cast<std::size_t>(rule.version_of(0, j))]);
  return *std::max_element(history.end() - 100, history.end());
}

TEST(VersionRule, VerticalSyncIsStableOnAQuadraticBelowTheThresholdOfItsDelayAlone) {
  for (const int stages : {2, 3, 4, 8}) {
    const VersionRule rule =
        rule_of("pipedream:sync=vertical", {.ranks = stages, .stages = stages});
    const double threshold = 2 * std::sin(std::numbers::pi / (2.0 * (2 * stages - 1)));
    EXPECT_LT(size_after_descent(rule, 0.999 * threshold), 0.1) << stages;
    EXPECT_GT(size_after_descent(rule, 1.001 * threshold), 10) << stages;
  }
}

TEST(VersionRule, DoubleBuffersAreStableOnAQuadraticBelowOne) {
  const VersionRule rule = rule_of("pipedream_2bw", {.ranks = 2, .stages = 2}, 1);
  EXPECT_LT(size_after_descent(rule, 0.999), 0.1);
  EXPECT_GT(size_after_descent(rule, 1.001), 10);
}

TEST(VersionRule, WhatHasNoRuleIsRefusedWithTheRemedy) {
  const auto refusal = [](std::string_view schedule, const Placement& placement, int m) {
    return version_rule(parse_schedule(schedule).value(), placement, m).error().what;
  };
  EXPECT_THAT(refusal("1f1b", {.ranks = 2, .stages = 2}, 4), HasSubstr("one version"));
  EXPECT_THAT(refusal("pipedream_2bw", {.ranks = 4, .stages = 4}, 2),
              HasSubstr("at least 3 micro-batches on 4 ranks, and it has 2"));
  EXPECT_THAT(
      refusal("pipedream:sync=vertical", {.ranks = 3, .stages = 2, .replicas = {2, 1}}, 1),
      AllOf(HasSubstr("pipedream:sync=vertical"), HasSubstr("choose pipedream:sync=stash")));
}

}  // namespace
}  // namespace paceline::pipeline
