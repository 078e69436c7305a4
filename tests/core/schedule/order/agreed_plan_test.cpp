#include "paceline/core/schedule/order/agreed_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/job/job.h"
#include "paceline/core/schedule/policies/policies.h"
#include "paceline/core/schedule/replay/replay_models.h"
#include "tests/support/local_world.h"

namespace paceline::schedule {
namespace {

TEST(AgreedPlan, EveryRankHasRank0s) {
  const Model model = resnet_50();
  for (MessagePlan plan :
       {barrier(model), priority(model), wait_free(model, {.path = Path::server})}) {
    plan.groups.back().codec = "fp16";
    plan.order = {2, 0, 1};
    test::run_ranks(3, [&](Job& job) {
      const MessagePlan own = job.rank() == 0 ? plan : MessagePlan();
      EXPECT_EQ(agreed(job.world(), own), plan);
    });
  }
}

TEST(AgreedPlan, TextThatIsNoPlanIsMisuse) {
  const std::string good = json_of(barrier(resnet_50()));
  EXPECT_EQ(plan_of_json(good), barrier(resnet_50()));
  for (const std::string& text :
       std::vector<std::string>{"", "{}", "[1]", good.substr(0, good.size() / 2)})
    EXPECT_THROW(plan_of_json(text), Error) << text;
}

}  // namespace
}  // namespace paceline::schedule
