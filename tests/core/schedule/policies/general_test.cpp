// Also covers paceline/core/schedule/policies/starting_plans.h.
#include <gtest/gtest.h>

#include <algorithm>

#include "paceline/core/schedule/policies/policies.h"
#include "paceline/core/schedule/policies/policy_catalogue.h"
#include "paceline/core/schedule/policies/starting_plans.h"
#include "paceline/core/schedule/policies/survey_methods.h"
#include "paceline/core/schedule/replay/replay_models.h"
#include "paceline/core/schedule/simulation/bounds.h"
#include "paceline/core/schedule/simulation/fusion.h"
#include "tests/core/schedule/example_costs.h"
#include "tests/support/nightly.h"

namespace paceline::schedule::general_claims {
namespace {

constexpr double kGigabit = 1.25e8;
constexpr GeneralSettings kShort{.conditions = {}, .only = {}, .most_simulations = 20};
constexpr GeneralSettings kLonger{.conditions = {}, .only = {}, .most_simulations = 150};

Costs costs_at(double gigabits, Servers servers, const std::vector<CodecCost>& codecs = {}) {
  Costs costs{costs_of({.bytes_per_second = gigabits * kGigabit, .servers = servers})};
  costs.codecs.insert(costs.codecs.end(), codecs.begin(), codecs.end());
  return costs;
}

double best_of_the_seven(const Model& model, const Costs& costs) {
  double best = 1e9;
  for (const MessagePlan& plan : survey_methods(model, costs.links))
    best = std::min(best, iteration_seconds(model, costs, plan));
  return best;
}

// The best of the seven without compression: milliseconds and name.
TEST(SurveyMethods, TheBestOfTheSevenIsTheOneOfTheExecutedModel) {
  struct Row {
    Servers servers;
    const char* model;
    double milliseconds[4];  // at 0.2, 1, 5 and 10 Gbit/s
  };
  constexpr Row kRows[] = {{Servers::dedicated, "ResNet-50", {4257, 854, 255, 253}},
                           {Servers::dedicated, "BERT-Base", {17849, 3625, 783, 431}},
                           {Servers::dedicated, "BERT-Large", {53972, 10814, 2185, 1106}},
                           {Servers::colocated, "ResNet-50", {6141, 1234, 296, 253}},
                           {Servers::colocated, "BERT-Base", {26499, 5358, 1130, 603}},
                           {Servers::colocated, "BERT-Large", {80723, 16166, 3255, 1641}},
                           {Servers::none, "ResNet-50", {6183, 1276, 331, 253}},
                           {Servers::none, "BERT-Base", {26550, 5408, 1182, 659}},
                           {Servers::none, "BERT-Large", {80785, 16228, 3317, 1703}}};
  for (const Row& row : kRows) {
    std::size_t i = 0;
    for (const double gigabits : {.2, 1.0, 5.0, 10.0}) {
      const double best =
          best_of_the_seven(replay_model(row.model), costs_at(gigabits, row.servers));
      EXPECT_NEAR(best * 1e3, row.milliseconds[i++], .52) << row.model << " at " << gigabits;
    }
  }
}

TEST(General, IsNeverSlowerThanAnyOfTheSevenAndNeverBelowTheBound) {
  if (test::is_brief()) GTEST_SKIP() << "numbers alone: without sanitizers, and at night";
  for (const Model& model : replay_models()) {
    for (const Servers servers : {Servers::none, Servers::dedicated, Servers::colocated}) {
      for (const double gigabits : {.2, 5.0}) {
        const Costs costs = costs_at(gigabits, servers);
        const GeneralPlan found = general(model, costs, kLonger);
        EXPECT_NO_THROW(check(found.plan, model.size()));
        EXPECT_LE(found.seconds, best_of_the_seven(model, costs)) << to_string(found.plan, model);
        EXPECT_LE(found.seconds, found.start_seconds);
        EXPECT_EQ(found.seconds, iteration_seconds(model, costs, found.plan));
        const double bound = bounds_of(model, costs.links).crossing;
        EXPECT_GE(found.seconds, bound * (1 - 1e-9));
        EXPECT_LE(found.seconds, bound * 1.02) << model.name << " at " << gigabits;
      }
    }
  }
}

// The computation is scaled so that transfers take as long, at 1 Gbit/s.
TEST(General, GainsWhatTheExecutedModelGainsOverTheMethodsWithABarrier) {
  if (test::is_brief()) GTEST_SKIP() << "numbers alone: without sanitizers, and at night";
  struct Gain {
    Servers servers;
    double of_barrier[3], of_all[3];
  };
  constexpr Gain kGains[] = {{Servers::colocated, {1.33, 1.22, 1.41}, {1.18, 1.03, 1.01}},
                             {Servers::dedicated, {1.03, 1.03, 1.14}, {1.03, 1.02, 1.01}},
                             {Servers::none, {1.32, 1.22, 1.41}, {1.32, 1.13, 1.04}}};
  for (const Gain& gain : kGains) {
    const Costs costs = costs_at(1, gain.servers);
    std::size_t i = 0;
    for (const Model& real : replay_models()) {
      const Model model = with_communication_ratio(real, costs.links, 1);
      const double found = general(model, costs, kShort).seconds;
      double barrier = 1e9;
      for (const MessagePlan& plan : survey_methods(model, costs.links))
        if (!plan.crosses_barrier)
          barrier = std::min(barrier, iteration_seconds(model, costs, plan));
      EXPECT_NEAR(barrier / found, gain.of_barrier[i], .012) << model.name;
      EXPECT_NEAR(best_of_the_seven(model, costs) / found, gain.of_all[i], .012) << model.name;
      ++i;
    }
  }
}

TEST(General, GainsWhatTheExecutedModelGainsByCompression) {
  if (test::is_brief()) GTEST_SKIP() << "numbers alone: without sanitizers, and at night";
  struct Gain {
    double gigabits;
    Servers servers;
    const char* model;
    double fp16, int8, top_k;
  };
  constexpr Gain kGains[] = {{1, Servers::colocated, "ResNet-50", 2.00, 3.96, 4.86},
                             {1, Servers::colocated, "BERT-Base", 1.97, 3.84, 15.19},
                             {1, Servers::dedicated, "BERT-Base", 1.97, 3.79, 10.27},
                             {10, Servers::dedicated, "BERT-Large", 1.95, 2.36, 2.70}};
  for (const Gain& gain : kGains) {
    const Model model = replay_model(gain.model);
    const double plain = best_of_the_seven(model, costs_at(gain.gigabits, gain.servers));
    const auto codecs = example_codecs();
    const double expected[] = {gain.fp16, gain.int8, gain.top_k};
    for (std::size_t i = 0; i < codecs.size(); ++i) {
      const Costs costs = costs_at(gain.gigabits, gain.servers, {codecs[i]});
      EXPECT_GE(plain / general(model, costs, kShort).seconds, expected[i] * .98)
          << gain.model << " " << codecs[i].name;
    }
  }
}

Model alike(int tensors, std::size_t bytes, double forward, double backward) {
  Model model{.name = "sample"};
  model.tensors.assign(static_cast<std::size_t>(tensors),
                       {.bytes = bytes, .forward = forward, .backward = backward});
  return model;
}

double with_parts(const Model& model, const Costs& costs, std::size_t part) {
  const MessagePlan plan = plan_of("split", single_tensors(model.size()),
                                   {.part_bytes = part,
                                    .by_forward_order = true,
                                    .crosses_barrier = true,
                                    .window_bytes = 2 * part});
  return iteration_seconds(model, costs, plan);
}

TEST(General, FusesManySmallTensorsBehindADearStartUp) {
  const Model model = alike(200, 40000, 1e-4, 2e-4);
  const Costs costs{
      costs_of({.bytes_per_second = 10 * kGigabit, .alpha = 250e-6, .servers = Servers::none})};
  const double unfused = iteration_seconds(model, costs, wait_free(model));
  const double fused = iteration_seconds(model, costs, merged(model, costs.links));
  EXPECT_NEAR(unfused, .230, .010);
  EXPECT_NEAR(fused, .070, .010);
  const GeneralPlan found = general(model, costs, kShort);
  EXPECT_LE(found.seconds, fused);
  EXPECT_LT(found.plan.groups.size(), 100u) << to_string(found.plan, model);
}

TEST(General, SplitsTheLargeTensorThatIsReadyFirstAndReadLast) {
  Model model = alike(51, 100000, 1e-3, 2e-3);
  model.tensors.back().bytes = 100000000;
  const Costs costs{costs_of({.bytes_per_second = 10 * kGigabit, .servers = Servers::none})};
  const Uniform whole{.by_forward_order = true, .crosses_barrier = true};
  const double unsplit =
      iteration_seconds(model, costs, plan_of("whole", single_tensors(51), whole));
  const double split = with_parts(model, costs, 2000000);
  EXPECT_NEAR(unsplit, .189, .003);
  EXPECT_NEAR(split, .157, .003);
  const GeneralPlan found = general(model, costs, kShort);
  EXPECT_LE(found.seconds, split * 1.01);
  const auto splits = [&](const MessageGroup& group) { return parts_of(model, group) > 1; };
  EXPECT_TRUE(std::ranges::any_of(found.plan.groups, splits)) << to_string(found.plan, model);
}

TEST(General, WithoutStartUpLetsNoFusionBeatSingleTensorsUnderABarrier) {
  const Model model = resnet_50();
  const Costs costs{costs_of({.alpha = 0, .theta = 0, .servers = Servers::none})};
  const double single = iteration_seconds(model, costs, wait_free(model));
  for (const MessagePlan& plan : starting_plans(model, costs)) {
    if (plan.crosses_barrier) continue;
    EXPECT_GE(iteration_seconds(model, costs, plan), single * (1 - 1e-9)) << plan.name;
  }
}

TEST(General, IsTheSamePlanForTheSameArgumentsAndStaysOnThePathItIsGiven) {
  const Model model = bert_base();
  const Costs costs = costs_at(5, Servers::dedicated);
  for (const Path path : {Path::all_to_all, Path::server}) {
    GeneralSettings settings = kShort;
    settings.only = path;
    const GeneralPlan found = general(model, costs, settings);
    EXPECT_EQ(found.plan, general(model, costs, settings).plan);
    for (const MessageGroup& group : found.plan.groups) EXPECT_EQ(group.path, path);
  }
}

TEST(GeneralPolicy, IsNoSlowerThanAnyOtherPolicyWithABarrierAndAcross) {
  const Model model = replay_model("resnet-50");
  const Costs costs = {.links = costs_of({.workers = 4, .servers = Servers::none})};
  for (const bool crosses : {false, true}) {
    const double general =
        iteration_seconds(model, costs, policy("general").make(model, costs, crosses));
    for (const Policy& other : policies()) {
      EXPECT_LE(general, iteration_seconds(model, costs, other.make(model, costs, crosses)) + 1e-12)
          << other.name;
    }
  }
}

}  // namespace
}  // namespace paceline::schedule::general_claims
