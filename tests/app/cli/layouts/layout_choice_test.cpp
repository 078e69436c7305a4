#include "paceline/app/cli/layouts/layout_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/base/result.h"

namespace paceline::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(LayoutChoice, ACommaStandsBetweenLayoutsAndAPlusBetweenAxes) {
  const auto layouts = parse_layouts("--layouts", "none,dp=2,pp=2+dp=3,tp=4");
  ASSERT_EQ(layouts.size(), 4u);
  EXPECT_EQ(layouts[0], (LayoutChoice{.name = "none"}));
  EXPECT_EQ(layouts[1], (LayoutChoice{.name = "dp=2", .option = "dp=2", .dp = 2}));
  EXPECT_EQ(layouts[2],
            (LayoutChoice{.name = "pp=2+dp=3", .option = "pp=2,dp=3", .pp = 2, .dp = 3}));
  EXPECT_EQ(layouts[2].ranks(), 6);
  EXPECT_FALSE(layouts[2].has_data_alone() || layouts[2].has_stages_alone());
  EXPECT_TRUE(layouts[1].has_data_alone());
}

TEST(LayoutChoice, LabelsCountProgramsAndPartsOfTheData) {
  std::string labels;
  for (const LayoutChoice& layout :
       parse_layouts("--layouts", "none,dp=2,cp=2,pp=2,tp=2,dp=2+tp=2"))
    labels += std::string(name_of(layout.label())) + " ";
  EXPECT_EQ(labels, "SPSD SPMD SPMD MPSD MPSD MPMD ");
}

TEST(LayoutChoice, WhatIsNoLayoutIsRefusedByName) {
  const auto refusal = [](const char* text) {
    try {
      parse_layouts("--layouts", text);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refusal("none,xp=2"), AllOf(HasSubstr("--layouts: xp=2"), HasSubstr("tp")));
  EXPECT_THAT(refusal("dp=0"), HasSubstr("--layouts: dp=0"));
  EXPECT_THAT(refusal("dp=two"), HasSubstr("two"));
  EXPECT_THAT(refusal("dp"), AllOf(HasSubstr("--layouts: dp"), HasSubstr("\"none\"")));
  EXPECT_THAT(refusal("dp=2+dp=2"), HasSubstr("dp"));
  EXPECT_THAT(refusal("dp=2,none,dp=2"), HasSubstr("dp=2 is named twice"));
  EXPECT_THAT(refusal("dp=4000+pp=4000"), HasSubstr("more than 4096 ranks"));
  EXPECT_THAT(refusal("none,,dp=2"), HasSubstr("--layouts"));
}

}  // namespace
}  // namespace paceline::cli
