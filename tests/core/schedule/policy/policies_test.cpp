#include "paceline/core/schedule/policy/policies.h"

#include <gtest/gtest.h>

#include "paceline/core/base/result.h"
#include "paceline/core/schedule/replay/replay_models.h"
#include "paceline/core/schedule/simulation/fusion.h"

namespace paceline::schedule {
namespace {

const LinkCosts kLinks = costs_of({});

TEST(Policies, all_send_every_tensor_of_every_model_exactly_once) {
  for (const Model& model : replay_models()) {
    for (const Plan& plan : survey_methods(model, kLinks))
      EXPECT_NO_THROW(check(plan, model.size()));
    for (const Path path : {Path::all_to_all, Path::server})
      EXPECT_NO_THROW(check(merged(model, kLinks, {.path = path}), model.size()));
  }
}

TEST(Policies, barrier_is_one_group_and_wait_free_one_for_each_tensor) {
  const Model model = resnet_50();
  EXPECT_EQ(cuts_of(barrier(model)), one_group(161));
  EXPECT_EQ(cuts_of(wait_free(model)), single_tensors(161));
  EXPECT_FALSE(wait_free(model).crosses_barrier);
}

TEST(Policies, merged_fuses_by_the_start_up_it_is_told) {
  const Model model = bert_large();
  LinkCosts free = kLinks, dear = kLinks;
  free.all_reduce.alpha = 0;
  dear.all_reduce.alpha = 10;
  const auto end = [&](const LinkCosts& links, const Plan& plan) {
    return serial_end(ready_times(model), sent_bytes(model), links.all_reduce, cuts_of(plan));
  };
  EXPECT_NEAR(end(free, merged(model, free)), end(free, wait_free(model)), 1e-9);
  EXPECT_EQ(merged(model, dear).groups.size(), 1u);
  EXPECT_LE(end(kLinks, merged(model, kLinks)),
            end(kLinks, merged(model, kLinks, {.rule = FusionRule::released})));
}

TEST(Policies, the_surveys_seven_have_its_names_and_a_network_without_servers_has_four) {
  std::vector<std::string> names;
  for (const Plan& plan : survey_methods(resnet_50(), kLinks)) names.push_back(plan.name);
  EXPECT_EQ(names, (std::vector<std::string>{"BSP-PS", "BSP-A2A", "WFBP-PS", "WFBP-A2A", "MG-WFBP",
                                             "ByteScheduler-PS", "ByteScheduler-A2A"}));
  const LinkCosts alone = costs_of({.servers = Servers::none});
  EXPECT_EQ(survey_methods(resnet_50(), alone).size(), 4u);
  EXPECT_THROW(merged(resnet_50(), alone, {.path = Path::server}), Error);
}

TEST(Policies, only_bytescheduler_crosses_the_barrier_and_only_when_it_may) {
  for (const bool may : {true, false}) {
    for (const Plan& plan : survey_methods(bert_base(), kLinks, may))
      EXPECT_EQ(plan.crosses_barrier, may && plan.name.starts_with("ByteScheduler")) << plan.name;
  }
}

}  // namespace
}  // namespace paceline::schedule
