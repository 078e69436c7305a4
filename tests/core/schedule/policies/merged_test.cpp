#include <gtest/gtest.h>

#include "paceline/core/schedule/policy/policy_catalogue.h"
#include "paceline/core/schedule/replay/replay_models.h"
#include "paceline/core/schedule/simulation/simulate.h"

namespace paceline::schedule::merged_claims {
namespace {

const Costs kCosts = {.links = costs_of({.workers = 4, .servers = Servers::none})};

TEST(MergedPolicy, IsNoSlowerThanOneMessageForEachTensorAndThanOneForAll) {
  for (const Model& model : replay_models()) {
    const auto seconds = [&](std::string_view name) {
      return iteration_seconds(model, kCosts, policy(name).make(model, kCosts, false));
    };
    EXPECT_LE(seconds("merged"), seconds("wait_free") + 1e-12) << model.name;
    EXPECT_LE(seconds("merged"), seconds("barrier") + 1e-12) << model.name;
  }
}

}  // namespace
}  // namespace paceline::schedule::merged_claims
