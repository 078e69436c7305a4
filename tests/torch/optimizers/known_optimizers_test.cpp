#include "paceline/torch/optimizers/known_optimizers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <set>

#include "paceline/torch/optimizers/optimizers.h"

namespace paceline::optimizers {
namespace {

namespace optim = torch::optim;

std::vector<at::Tensor> one_parameter() {
  return {at::zeros({2, 2}).requires_grad_()};
}

template <typename Optimizer>
std::string name_of_known() {
  const Optimizer optimizer(one_parameter());
  const KnownOptimizer* const found = known(optimizer);
  return found == nullptr ? "none" : std::string(found->name);
}

TEST(KnownOptimizers, AreRecognisedByTheirTypes) {
  EXPECT_EQ(name_of_known<optim::Adam>(), "Adam");
  EXPECT_EQ(name_of_known<optim::AdamW>(), "AdamW");
  EXPECT_EQ(name_of_known<optim::RMSprop>(), "RMSprop");
  EXPECT_EQ(name_of_known<optim::Adagrad>(), "Adagrad");
  EXPECT_EQ(name_of_known<LARS>(), "LARS");
  EXPECT_EQ(name_of_known<LAMB>(), "LAMB");
  EXPECT_EQ(name_of_known<SVRG>(), "SVRG");
  EXPECT_EQ(name_of_known<optim::LBFGS>(), "torch::optim::LBFGS");
  EXPECT_EQ(name_of_known<QuasiNewton>(), "QuasiNewton");
  EXPECT_EQ(name_of_known<OnlineLBFGS>(), "OnlineLBFGS");
  EXPECT_EQ(name_of_known<SQN>(), "SQN");
  EXPECT_EQ(known(optim::SGD(one_parameter(), 0.1))->name, "SGD");
}

// It may keep more than its base, so nobody may save it as the base.
TEST(KnownOptimizers, AClassDerivedFromOneIsUnknownButForLBFGS) {
  struct OwnSGD : optim::SGD {
    using SGD::SGD;
  };
  struct OwnLBFGS : optim::LBFGS {
    using LBFGS::LBFGS;
  };
  EXPECT_EQ(known(OwnSGD(one_parameter(), 0.1)), nullptr);
  const KnownOptimizer* const lbfgs = known(OwnLBFGS(one_parameter()));
  ASSERT_NE(lbfgs, nullptr);
  EXPECT_EQ(lbfgs->reach, Reach::model);
}

TEST(KnownOptimizers, OnlyThoseThatStepByTheNormOfATensorReachOverOne) {
  for (const KnownOptimizer& one : known_optimizers()) {
    const bool by_norms = one.name == "LARS" || one.name == "LAMB";
    EXPECT_EQ(one.reach == Reach::tensor, by_norms) << one.name;
    EXPECT_EQ(one.reach == Reach::model, one.make_state == nullptr) << one.name;
  }
}

TEST(KnownOptimizers, ThoseWhoseStateIsNotToldHaveNoKnownState) {
  EXPECT_EQ(with_known_state(optim::LBFGS(one_parameter())), nullptr);
  EXPECT_EQ(with_known_state(SVRG(one_parameter()))->name, "SVRG");
  EXPECT_EQ(names_with_known_state(), "SGD, Adam, AdamW, RMSprop, Adagrad, LARS, LAMB, SVRG");
}

// A new state has no tensor, and counts from nothing; what is written into a slot is in the state.
TEST(KnownOptimizers, SlotsSeeTheStateAndNoTwoShareAName) {
  for (const KnownOptimizer& one : known_optimizers()) {
    if (one.make_state == nullptr) continue;
    const auto state = one.make_state();
    std::set<std::string_view> names;
    for (const OptimizerSlot& slot : one.slots(*state).tensors) {
      EXPECT_TRUE(names.insert(slot.name).second) << one.name << " " << slot.name;
      EXPECT_FALSE(slot.tensor->defined()) << one.name << " " << slot.name;
      *slot.tensor = at::ones({2});
    }
    EXPECT_FALSE(names.empty()) << one.name;
    for (const OptimizerSlot& slot : one.slots(*state).tensors)
      EXPECT_TRUE(slot.tensor->defined()) << one.name << " " << slot.name;
  }
}

std::vector<std::string_view> slots_of_known(const optim::Optimizer& optimizer) {
  const KnownOptimizer& one = *known(optimizer);
  const auto state = one.make_state();
  std::vector<std::string_view> names;
  for (const OptimizerSlot& slot : one.slots(*state).tensors) names.push_back(slot.name);
  return names;
}

TEST(KnownOptimizers, AdamHasASlotMoreThanLAMB) {
  EXPECT_THAT(slots_of_known(optim::Adam(one_parameter())),
              testing::ElementsAre("exp_avg", "exp_avg_sq", "max_exp_avg_sq"));
  EXPECT_THAT(slots_of_known(LAMB(one_parameter())), testing::ElementsAre("exp_avg", "exp_avg_sq"));
}

TEST(KnownOptimizers, OptionsAreReadAndSetInPlace) {
  optim::AdamOptions adam(0.25);
  adam.betas({0.5, 0.75});
  std::map<std::string_view, double> values;
  for (const OptimizerOption& one : known(optim::Adam(one_parameter()))->options(adam)) {
    values[one.name] = one.number();
    EXPECT_EQ(one.is_switch(), one.name == "amsgrad");
    if (one.is_switch()) *std::get<bool*>(one.value) = true;
  }
  EXPECT_EQ(values, (std::map<std::string_view, double>{{"lr", 0.25},
                                                        {"beta1", 0.5},
                                                        {"beta2", 0.75},
                                                        {"eps", 1e-8},
                                                        {"weight_decay", 0},
                                                        {"amsgrad", 0}}));
  EXPECT_TRUE(adam.amsgrad());
}

}  // namespace
}  // namespace paceline::optimizers
