#include <gtest/gtest.h>

#include "paceline/core/schedule/policy/policy_catalogue.h"
#include "paceline/core/schedule/replay/replay_models.h"
#include "paceline/core/schedule/simulation/simulate.h"

namespace paceline::schedule::general_claims {
namespace {

const Costs kCosts = {.links = costs_of({.workers = 4, .servers = Servers::none})};

TEST(GeneralPolicy, IsNoSlowerThanAnyOtherPolicyWithABarrierAndAcross) {
  const Model model = replay_model("resnet-50");
  for (const bool crosses : {false, true}) {
    const double general =
        iteration_seconds(model, kCosts, policy("general").make(model, kCosts, crosses));
    for (const Policy& other : policies()) {
      EXPECT_LE(general,
                iteration_seconds(model, kCosts, other.make(model, kCosts, crosses)) + 1e-12)
          << other.name;
    }
  }
}

}  // namespace
}  // namespace paceline::schedule::general_claims
