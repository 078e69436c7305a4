#include "paceline/core/schedule/order/buckets.h"

#include <gtest/gtest.h>

#include "paceline/core/schedule/policies/policy_catalogue.h"
#include "paceline/core/schedule/replay/replay_models.h"
#include "paceline/core/schedule/simulation/simulate.h"
#include "tests/core/schedule/example_costs.h"

namespace paceline::schedule::buckets_claims {
namespace {

const Costs kCosts = {.links = costs_of({.workers = 4, .servers = Servers::none})};

TEST(BucketsPolicy, NoBucketOfSeveralTensorsExceedsItsCapAndEachIsAsLongAsTheNextTensorAllows) {
  const BucketCaps caps;
  for (const Model& model : replay_models()) {
    const MessagePlan plan = policy("buckets").make(model, kCosts, true);
    EXPECT_FALSE(plan.crosses_barrier);
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
      const MessageGroup& group = plan.groups[g];
      const auto cap = static_cast<double>(g == 0 ? caps.first_bytes : caps.bytes);
      EXPECT_TRUE(group.end - group.begin == 1 || bytes_of(model, group) <= cap);
      if (group.end == model.size()) continue;
      const auto next = static_cast<double>(model.sent(group.end).bytes);
      EXPECT_GT(bytes_of(model, group) + next, cap) << model.name << ", bucket " << g;
    }
  }
}

}  // namespace
}  // namespace paceline::schedule::buckets_claims
