#include <gtest/gtest.h>

#include "paceline/core/schedule/policies/policy_catalogue.h"
#include "paceline/core/schedule/replay/replay_models.h"
#include "paceline/core/schedule/simulation/simulate.h"
#include "tests/core/schedule/example_costs.h"

namespace paceline::schedule::wait_free_claims {
namespace {

const Costs kCosts = {.links = costs_of({.workers = 4, .servers = Servers::none})};

TEST(WaitFreePolicy, SendsEachTensorOfEveryModelAloneAndNeverCrossesTheBarrier) {
  for (const Model& model : replay_models()) {
    for (const bool may_cross : {false, true}) {
      const MessagePlan plan = policy("wait_free").make(model, kCosts, may_cross);
      EXPECT_EQ(cuts_of(plan), single_tensors(model.size()));
      EXPECT_FALSE(plan.crosses_barrier);
    }
  }
}

}  // namespace
}  // namespace paceline::schedule::wait_free_claims
