#include "paceline/torch/strategy/server/optimizer_rule.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <set>

#include "paceline/core/server/server.h"
#include "paceline/torch/optimizers/optimizers.h"

namespace paceline::strategy {
namespace {

namespace optim = torch::optim;

template <typename Optimizer, typename Options>
OptimizerRule rule_by(const Options& options) {
  Optimizer optimizer({at::zeros({3}).requires_grad_()}, options);
  return rule_of({&optimizer}, {}, "bsp");
}

// Servers look their settings up by these names.
TEST(OptimizerRules, TellAllSettingsThatTheRuleOfServersHas) {
  for (const OptimizerRule& rule :
       {rule_by<optim::SGD>(optim::SGDOptions(0.1)), rule_by<optim::Adam>(optim::AdamOptions(0.1)),
        rule_by<optim::AdamW>(optim::AdamWOptions(0.1)),
        rule_by<optim::RMSprop>(optim::RMSpropOptions(0.1)),
        rule_by<optim::Adagrad>(optim::AdagradOptions(0.1))}) {
    std::set<std::string> expected, told;
    for (const auto& setting : server::parse_rule(rule.name).value().entry.settings)
      expected.emplace(setting.name);
    for (const auto& [name, value] : rule.settings) told.insert(name);
    EXPECT_EQ(told, expected) << rule.name;
  }
}

TEST(OptimizerRules, HaveTheValuesOfTheOptions) {
  EXPECT_EQ(
      rule_by<optim::RMSprop>(
          optim::RMSpropOptions(0.5).alpha(0.25).eps(2).momentum(0.75).weight_decay(3).centered(
              true)),
      (OptimizerRule{"rmsprop",
                     {{"rate", 0.5},
                      {"alpha", 0.25},
                      {"epsilon", 2},
                      {"momentum", 0.75},
                      {"weight_decay", 3},
                      {"centered", 1}}}));
  EXPECT_EQ(rule_by<optim::Adagrad>(optim::AdagradOptions(0.5).lr_decay(0.25).weight_decay(3)),
            (OptimizerRule{
                "adagrad",
                {{"rate", 0.5}, {"rate_decay", 0.25}, {"weight_decay", 3}, {"epsilon", 1e-10}}}));
}

TEST(OptimizerRules, ServersKnowARuleForEachOptimizerThatNamesOne) {
  for (const optimizers::KnownOptimizer& one : optimizers::known_optimizers()) {
    if (one.server_rule.empty()) continue;
    EXPECT_TRUE(server::parse_rule(one.server_rule)) << one.name;
  }
}

}  // namespace
}  // namespace paceline::strategy
