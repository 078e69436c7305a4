#include "paceline/core/schedule/policies/survey_methods.h"

#include <gtest/gtest.h>

#include "paceline/core/schedule/replay/replay_models.h"
#include "tests/core/schedule/example_costs.h"

namespace paceline::schedule {
namespace {

const LinkCosts kLinks = costs_of({});

TEST(SurveyMethods, AllSendEveryTensorOfEveryModelExactlyOnce) {
  for (const Model& model : replay_models()) {
    for (const MessagePlan& plan : survey_methods(model, kLinks))
      EXPECT_NO_THROW(check(plan, model.size()));
  }
}

TEST(SurveyMethods, TheSurveysSevenHaveItsNamesAndANetworkWithoutServersHasFour) {
  std::vector<std::string> names;
  for (const MessagePlan& plan : survey_methods(resnet_50(), kLinks)) names.push_back(plan.name);
  EXPECT_EQ(names, (std::vector<std::string>{"BSP-PS", "BSP-A2A", "WFBP-PS", "WFBP-A2A", "MG-WFBP",
                                             "ByteScheduler-PS", "ByteScheduler-A2A"}));
  const LinkCosts alone = costs_of({.servers = Servers::none});
  EXPECT_EQ(survey_methods(resnet_50(), alone).size(), 4u);
}

TEST(SurveyMethods, OnlyByteSchedulerCrossesTheBarrierAndOnlyWhenItMay) {
  for (const bool may : {true, false}) {
    for (const MessagePlan& plan : survey_methods(bert_base(), kLinks, may))
      EXPECT_EQ(plan.crosses_barrier, may && plan.name.starts_with("ByteScheduler")) << plan.name;
  }
}

}  // namespace
}  // namespace paceline::schedule
