// Also covers paceline/linear/solver/solver.cpp.
#include "paceline/linear/solver/solver_catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/linear/linear_problems.h"

namespace paceline::linear {
namespace {

using testing::HasSubstr;

// Why a run of the solver is refused; empty if it is not.
std::string refusal(const test::LinearCase& one, std::string_view solver, int ranks) {
  try {
    test::run_solver(one, solver, ranks, 1);
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse);
    return error.what();
  }
  return {};
}

TEST(SolverCatalogueTest, UnknownSolversAndSettingsAreToldTheKnownOnes) {
  EXPECT_THAT(
      parse_solver("cocoaplus").error().what,
      testing::AllOf(HasSubstr("no solver 'cocoaplus'"), HasSubstr("cocoa, cocoa_plus, cyclades"),
                     HasSubstr("did you mean cocoa_plus")));
  EXPECT_THAT(parse_solver("admm:rho=1").error().what,
              HasSubstr("admm has no setting 'rho'; it has penalty, passes, accuracy"));
  EXPECT_THAT(parse_solver("cocoa:passes=0").error().what,
              HasSubstr("passes of cocoa is a whole number from 1"));
  EXPECT_EQ(parse_solver("cocoa").value().text(), "cocoa:passes=1,order=permutation");
}

TEST(SolverCatalogueTest, EverySolverRefusesAnL1ThatItHasNot) {
  test::LinearCase one = test::sign_case(1, "smooth_hinge", 12, 4);
  one.problem.l1 = 0.1;
  for (const SolverMethod& method : built_in_solvers()) {
    if (method.takes_l1) {
      EXPECT_EQ(refusal(one, method.name, 1), "");
    } else {
      EXPECT_THAT(refusal(one, method.name, 1),
                  testing::AllOf(HasSubstr(std::string(method.name) + " has no l1, which is 0.1"),
                                 HasSubstr("admm"), HasSubstr("scd")));
    }
  }
}

TEST(SolverCatalogueTest, EverySolverOfOneProcessSaysSoOnTwoRanks) {
  const test::LinearCase one = test::sign_case(1, "smooth_hinge", 12, 4);
  for (const SolverMethod& method : built_in_solvers()) {
    if (method.parts != SolverMethod::Parts::one) continue;
    EXPECT_THAT(refusal(one, method.name, 2),
                testing::AllOf(HasSubstr("runs in one process, and there are 2 ranks"),
                               HasSubstr("cocoa_plus")));
  }
}

TEST(SolverCatalogueTest, EverySolverSaysWhichLossesAndRegularisersItNeeds) {
  test::LinearCase one = test::sign_case(1, "hinge", 12, 4);
  for (const SolverMethod& method : built_in_solvers()) {
    if (method.needs_smooth) {
      EXPECT_THAT(refusal(one, method.name, 1),
                  testing::AllOf(HasSubstr("needs a smooth loss, and hinge is not"),
                                 HasSubstr("logistic, smooth_hinge, squared"), HasSubstr("sdca")));
    }
  }
  one.problem.l2 = 0;
  for (const SolverMethod& method : built_in_solvers()) {
    if (method.needs_l2) {
      EXPECT_THAT(refusal(one, method.name, 1),
                  testing::AllOf(HasSubstr("needs an l2 above 0"), HasSubstr("admm")));
    }
  }
}

TEST(SolverCatalogueTest, MoreRanksThanFeaturesAreRefusedWhereFeaturesAreSplit) {
  const test::LinearCase one = test::ridge_case(1, 12, 2);
  EXPECT_THAT(refusal(one, "feature_split", 3),
              testing::AllOf(HasSubstr("there are 3 ranks but 2 features"), HasSubstr("admm")));
  EXPECT_EQ(refusal(one, "cocoa_plus", 3), "");
}

TEST(SolverCatalogueTest, LabelsThatTheLossCannotTakeAreRefusedBeforeTheFirstRound) {
  test::LinearCase one = test::ridge_case(1, 12, 2);
  one.problem.loss = parse_loss("logistic").value();
  EXPECT_THAT(refusal(one, "sdca", 1), HasSubstr("which the loss logistic cannot take"));
}

}  // namespace
}  // namespace paceline::linear
