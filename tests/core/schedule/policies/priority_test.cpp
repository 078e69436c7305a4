#include <gtest/gtest.h>

#include "paceline/core/schedule/policies/policy_catalogue.h"
#include "paceline/core/schedule/replay/replay_models.h"
#include "paceline/core/schedule/simulation/simulate.h"
#include "tests/core/schedule/example_costs.h"

namespace paceline::schedule::priority_claims {
namespace {

const Costs kCosts = {.links = costs_of({.workers = 4, .servers = Servers::none})};

TEST(PriorityPolicy, CrossesTheBarrierExactlyWhereItMayAndSendsEachTensorOnce) {
  for (const Model& model : replay_models()) {
    for (const bool may_cross : {false, true}) {
      const MessagePlan plan = policy("priority").make(model, kCosts, may_cross);
      EXPECT_EQ(plan.crosses_barrier, may_cross) << model.name;
      EXPECT_NO_THROW(check(plan, model.size())) << model.name;
    }
  }
}

TEST(PriorityPolicy, NumbersTensorsInTheOrderInWhichTheForwardPassReadsThem) {
  const Model model = replay_model("resnet-50");
  const MessagePlan plan = policy("priority").make(model, kCosts, true);
  // Tensors stand in the order of the backward pass, so the forward pass reads the last one first.
  for (std::size_t g = 1; g < plan.groups.size(); ++g)
    EXPECT_LT(plan.groups[g].priority, plan.groups[g - 1].priority) << g;
}

}  // namespace
}  // namespace paceline::schedule::priority_claims
