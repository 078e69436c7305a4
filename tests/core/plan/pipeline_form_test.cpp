#include "paceline/core/plan/pipeline_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::plan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

PipelineForm form_of(const char* text) {
  return PipelineForm::parse(text).value();
}

std::vector<StageTimes> equal_stages(int p, double forward, double backward) {
  return std::vector<StageTimes>(static_cast<std::size_t>(p),
                                 {.forward = forward, .backward = backward});
}

std::vector<double> live_on_all(const char* form, int p, int m) {
  const std::vector<int> replicas(static_cast<std::size_t>(p), 1);
  std::vector<double> live;
  for (int stage = 0; stage < p; ++stage)
    live.push_back(live_activations(form_of(form), replicas, stage, m));
  return live;
}

// Runs forward and backward passes in the order of each stage, in virtual time: the makespan.
struct Pass {
  bool is_forward;
  int micro;
};

double makespan(const std::vector<std::vector<Pass>>& orders,
                const std::vector<StageTimes>& stages) {
  const int p = static_cast<int>(stages.size());
  using Event = std::tuple<bool, int, int>;
  std::map<Event, double> came;  // when the input of a pass is there
  std::vector<double> clock(stages.size()), up(stages.size()), down(stages.size());
  std::vector<std::size_t> at(stages.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < p; ++s) {
      const auto i = static_cast<std::size_t>(s);
      while (at[i] < orders[i].size()) {
        const auto [is_forward, micro] = orders[i][at[i]];
        const bool is_source = is_forward && s == 0;
        const auto input = came.find({is_forward, s, micro});
        if (!is_source && input == came.end()) break;
        const double begin = std::max(clock[i], is_source ? 0 : input->second);
        clock[i] = begin + (is_forward ? stages[i].forward : stages[i].backward);
        if (is_forward && s == p - 1) came[{false, s, micro}] = clock[i];
        else if (is_forward)
          came[{true, s + 1, micro}] = up[i] = std::max(up[i], clock[i]) + stages[i].transfer;
        else if (s > 0)
          came[{false, s - 1, micro}] = down[i] =
              std::max(down[i], clock[i]) + stages[i - 1].transfer;
        ++at[i];
        moved = true;
      }
    }
  }
  return *std::ranges::max_element(clock);
}

std::vector<std::vector<Pass>> order_of(bool is_gpipe, int p, int m) {
  std::vector<std::vector<Pass>> orders;
  for (int s = 0; s < p; ++s) {
    const int warm = is_gpipe ? m : std::min(p - s - 1, m);
    auto& order = orders.emplace_back();
    for (int k = 0; k < warm; ++k) order.push_back({true, k});
    for (int k = 0; k < m; ++k) {
      if (k + warm < m) order.push_back({true, k + warm});
      order.push_back({false, k});
    }
  }
  return orders;
}

TEST(PipelineForm, StepsOfFourStagesAndEightMicroBatchesAreThePublishedOnes) {
  const auto stages = equal_stages(4, 1, 2);
  EXPECT_DOUBLE_EQ(step_seconds(form_of("gpipe"), stages, 8), 33);
  EXPECT_DOUBLE_EQ(step_seconds(form_of("1f1b"), stages, 8), 33);
  EXPECT_DOUBLE_EQ(step_seconds(form_of("interleaved:chunks=2"), stages, 8), 28.5);
  EXPECT_DOUBLE_EQ(step_seconds(form_of("interleaved:chunks=3"), stages, 8), 27);
  EXPECT_DOUBLE_EQ(step_seconds(form_of("zero_bubble"), stages, 8), 27);
  EXPECT_DOUBLE_EQ(step_seconds(form_of("sequential"), stages, 1), 12);
  EXPECT_DOUBLE_EQ(step_seconds(form_of("pipedream"), stages, 1), 3);
  EXPECT_DOUBLE_EQ(step_seconds(form_of("pipedream_2bw"), stages, 8), 24);
  EXPECT_EQ(live_on_all("gpipe", 4, 8), (std::vector<double>{8, 8, 8, 8}));
  EXPECT_EQ(live_on_all("1f1b", 4, 8), (std::vector<double>{4, 3, 2, 1}));
  EXPECT_EQ(live_on_all("1f1b", 4, 2), (std::vector<double>{2, 2, 2, 1}));
  EXPECT_EQ(live_on_all("interleaved:chunks=2", 4, 8), (std::vector<double>{5.5, 4.5, 3.5, 2.5}));
  EXPECT_EQ(live_on_all("interleaved:chunks=2", 4, 4), (std::vector<double>{4, 4, 4, 4}));
  EXPECT_EQ(live_on_all("zero_bubble", 4, 8), (std::vector<double>{4, 4, 4, 4}));
  EXPECT_EQ(live_on_all("pipedream", 4, 1), (std::vector<double>{4, 3, 2, 1}));
  EXPECT_EQ(live_on_all("sequential", 4, 8), (std::vector<double>{1, 1, 1, 1}));
}

TEST(PipelineForm, AZeroBubbleThatRecomputesIsA1f1b) {
  for (const char* text : {"sequential", "gpipe", "1f1b", "interleaved:chunks=2", "pipedream"})
    EXPECT_EQ(recomputing(form_of(text)), form_of(text));
  EXPECT_EQ(recomputing(form_of("zero_bubble")), form_of("1f1b"));
}

TEST(PipelineForm, OfGpipeIsTheExecutedScheduleWithAnyTimesAndTransfers) {
  SeededNumbers numbers(test::seed(35));
  for (int round = 0; round < 500; ++round) {
    std::vector<StageTimes> stages;
    const int p = 1 + static_cast<int>(numbers.below(6)),
              m = 1 + static_cast<int>(numbers.below(12));
    for (int s = 0; s < p; ++s) stages.push_back({numbers.unit(), numbers.unit(), numbers.unit()});
    const double executed = makespan(order_of(true, p, m), stages);
    EXPECT_NEAR(step_seconds(form_of("gpipe"), stages, m), executed, 1e-9) << p << ", " << m;
  }
}

TEST(PipelineForm, Of1f1bBoundsTheExecutedScheduleAndIsNearItInLongSteps) {
  SeededNumbers numbers(test::seed(36));
  for (int round = 0; round < 100; ++round) {
    std::vector<StageTimes> stages;
    const int p = 1 + static_cast<int>(numbers.below(6));
    for (int s = 0; s < p; ++s)
      stages.push_back({.1 + numbers.unit(), .1 + numbers.unit(), numbers.unit() / 2});
    for (const int m : {1, 3, 8, 400}) {
      const double executed = makespan(order_of(false, p, m), stages);
      const double formula = step_seconds(form_of("1f1b"), stages, m);
      EXPECT_GE(formula, executed - 1e-9) << p << ", " << m;
      EXPECT_LE(formula, executed * (m == 400 ? 1.02 : 1.35)) << p << ", " << m;
    }
  }
}

TEST(PipelineForm, InFlightAndVersionsAreThoseOfPipeDreamWithReplicas) {
  const auto all = [](const char* form, std::vector<int> replicas) {
    std::vector<int> flights, versions;
    for (int s = 0; s < static_cast<int>(replicas.size()); ++s) {
      flights.push_back(in_flight(replicas, s));
      versions.push_back(weight_versions(form_of(form), replicas, s));
    }
    return std::pair(flights, versions);
  };
  using Both = std::pair<std::vector<int>, std::vector<int>>;
  EXPECT_EQ(all("pipedream", {1, 1, 1, 1}), (Both{{4, 3, 2, 1}, {4, 3, 2, 1}}));
  EXPECT_EQ(all("pipedream:sync=vertical", {1, 1, 1, 1}), (Both{{4, 3, 2, 1}, {4, 4, 4, 4}}));
  EXPECT_EQ(all("pipedream", {4, 2, 1}), (Both{{2, 2, 1}, {3, 3, 1}}));
  EXPECT_EQ(all("pipedream", {2, 1}), (Both{{2, 1}, {3, 1}}));
  EXPECT_EQ(all("pipedream_2bw", {1, 1, 1}).second, (std::vector<int>{2, 2, 2}));
  EXPECT_EQ(all("1f1b", {1, 1, 1}).second, (std::vector<int>{1, 1, 1}));
}

TEST(PipelineForm, ReplicasShareTheMiniBatchesOfAStage) {
  const std::vector<StageTimes> stages = {{.forward = 10, .replicas = 5}, {.forward = 2}};
  EXPECT_DOUBLE_EQ(steady_seconds(stages), 2);
}

TEST(PipelineForm, NamesAreThoseOfTheSchedulesAndOthersAreRefused) {
  for (const char* text : {"sequential", "gpipe", "1f1b", "interleaved:chunks=2", "zero_bubble",
                           "pipedream", "pipedream:sync=vertical", "pipedream_2bw"})
    EXPECT_EQ(form_of(text).text(), text);
  EXPECT_EQ(form_of("interleaved").chunks, 2);
  EXPECT_THAT(PipelineForm::parse("1f1bb").error().what,
              AllOf(HasSubstr("1f1bb"), HasSubstr("zero_bubble")));
  EXPECT_THAT(PipelineForm::parse("interleaved:chunks=0").error().what, HasSubstr("chunks"));
  EXPECT_THAT(PipelineForm::parse("gpipe:chunks=2").error().what, HasSubstr("chunks"));
}

TEST(PipelineForm, AStageThatIsNotThereIsAMisuse) {
  const std::vector<int> replicas = {1, 1};
  EXPECT_THROW(live_activations(form_of("1f1b"), replicas, 2, 1), Error);
  EXPECT_THROW(live_activations(form_of("1f1b"), replicas, 0, 0), Error);
  EXPECT_THROW(step_seconds(form_of("1f1b"), {}, 1), Error);
}

}  // namespace
}  // namespace paceline::plan
