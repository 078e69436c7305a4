#include <gtest/gtest.h>

#include "paceline/core/base/result.h"
#include "paceline/core/schedule/policies/policies.h"
#include "paceline/core/schedule/policies/policy_catalogue.h"
#include "paceline/core/schedule/replay/replay_models.h"
#include "paceline/core/schedule/simulation/fusion.h"
#include "paceline/core/schedule/simulation/simulate.h"
#include "tests/core/schedule/example_costs.h"

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

TEST(MergedPolicy, FusesByTheStartUpItIsTold) {
  const Model model = bert_large();
  const LinkCosts links = costs_of({});
  LinkCosts free = links, dear = links;
  free.all_reduce.alpha = 0;
  dear.all_reduce.alpha = 10;
  const auto end = [&](const LinkCosts& costs, const MessagePlan& plan) {
    return serial_end(ready_times(model), sent_bytes(model), costs.all_reduce, cuts_of(plan));
  };
  EXPECT_NEAR(end(free, merged(model, free)), end(free, wait_free(model)), 1e-9);
  EXPECT_EQ(merged(model, dear).groups.size(), 1u);
  EXPECT_LE(end(links, merged(model, links)),
            end(links, merged(model, links, {.rule = FusionRule::released})));
}

TEST(MergedPolicy, SendsEveryTensorOfEveryModelExactlyOnceOnBothPaths) {
  for (const Model& model : replay_models()) {
    for (const Path path : {Path::all_to_all, Path::server})
      EXPECT_NO_THROW(check(merged(model, costs_of({}), {.path = path}), model.size()));
  }
}

TEST(MergedPolicy, ThePathOfServersIsRefusedWhereThereAreNone) {
  EXPECT_THROW(merged(resnet_50(), kCosts.links, {.path = Path::server}), Error);
}

}  // namespace
}  // namespace paceline::schedule::merged_claims
