#include "paceline/core/schedule/policies/policy_catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/schedule/path/dispatch.h"
#include "paceline/core/schedule/replay/replay_models.h"
#include "paceline/core/schedule/simulation/simulate.h"
#include "tests/core/schedule/example_costs.h"

namespace paceline::schedule {
namespace {

TEST(PolicyCatalogue, EveryPolicysPlanCanBeCarriedOutAndCrossesTheBarrierOnlyWhereItMay) {
  const Model model = replay_model("resnet-50");
  const Costs costs = {.links = costs_of({.workers = 4, .servers = Servers::none})};
  std::set<std::string_view> names;
  for (const Policy& policy : policies()) {
    EXPECT_TRUE(names.insert(policy.name).second) << policy.name << " stands twice";
    EXPECT_EQ(&schedule::policy(policy.name), &policy);
    for (const bool crosses : {false, true}) {
      const MessagePlan plan = ordered(policy.make(model, costs, crosses), model, costs);
      EXPECT_LE(plan.crosses_barrier, crosses) << policy.name;
      EXPECT_FALSE(Dispatch(model, plan).messages().empty());
    }
  }
}

TEST(PolicyCatalogue, ThoseThatNeedToKnowLeastComeFirst) {
  std::vector<std::string_view> names;
  for (const Policy& policy : policies()) names.push_back(policy.name);
  EXPECT_THAT(names, testing::ElementsAre("barrier", "buckets", "wait_free", "merged", "priority",
                                          "general"));
}

TEST(PolicyCatalogue, AnUnknownNameIsToldWithTheKnownOnes) {
  try {
    policy("wait_fre");
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse);
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("'wait_fre'"),
                               testing::HasSubstr("barrier, buckets, wait_free, merged"),
                               testing::HasSubstr("did you mean")));
  }
}

}  // namespace
}  // namespace paceline::schedule
