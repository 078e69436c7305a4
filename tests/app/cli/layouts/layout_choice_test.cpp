#include "paceline/app/cli/layouts/layout_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "paceline/core/base/result.h"
#include "tests/support/temporary_folder.h"

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

using ::testing::HasSubstr;

LayoutChoice only_layout(const std::string& name) {
  return parse_layouts("--layouts", name).front();
}

Result<MeasuredRun> read_back(const std::string& layout, const std::string& lines) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.file("metrics")) << lines;
  return read_measured_run(folder.file("metrics"), only_layout(layout));
}

std::string summary_with(const std::string& figures) {
  return R"({"event":"summary","train_samples_per_second":80.5)" + figures + "}\n";
}

TEST(MeasuredRun, GradientsOfARankAreTheBytesOfAStep) {
  const auto run = read_back(
      "dp=2", R"({"event":"step","train_samples_per_second":1})"
              "\n" +
                  summary_with(R"(,"steps":12,"exchanged_bytes":89457120.0,"stepped_bytes":10)"));
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run.value().samples_per_second, 80.5);
  EXPECT_EQ(run.value().traffic_bytes, 7'454'760);
  EXPECT_EQ(run.value().storage_bytes, 20) << "each replica has all of it";
  EXPECT_FALSE(run.value().balance.has_value());
}

TEST(MeasuredRun, StagesTellWhatEachHasAndComputes) {
  const auto run = read_back("pp=2", summary_with(R"(,"cut_bytes_per_step":1048576.0,)"
                                                  R"("parameter_bytes":[30,50],"stepped_bytes":30,)"
                                                  R"("busy_microseconds":[1,3])"));
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run.value().traffic_bytes, 1'048'576);
  EXPECT_EQ(run.value().storage_bytes, 80);
  EXPECT_EQ(run.value().balance, 1.5);
}

TEST(MeasuredRun, AFigureThatIsNotToldForALayoutIsEmpty) {
  const auto empty = [](const std::string& layout, const std::string& figures) {
    const MeasuredRun run = read_back(layout, summary_with(figures)).value();
    return !run.traffic_bytes && !run.storage_bytes;
  };
  const std::string gradients = R"(,"steps":2,"exchanged_bytes":8.0)";
  EXPECT_TRUE(empty("tp=2", gradients)) << "activations are not counted in it";
  EXPECT_TRUE(empty("pp=2", gradients + R"(,"stepped_bytes":30)")) << "stages are not alike";
  EXPECT_TRUE(empty("dp=2+pp=2", gradients + R"(,"parameter_bytes":[30,50])")) << "of 4 ranks";
  EXPECT_TRUE(empty("dp=2", ""));
  EXPECT_EQ(read_back("none", summary_with("")).value().traffic_bytes, 0);
}

TEST(MeasuredRun, AFileWithoutASummaryIsAFailureThatSaysWhatIsMissing) {
  const auto missing = read_measured_run("/nowhere/metrics", only_layout("none"));
  ASSERT_FALSE(missing.has_value());
  EXPECT_THAT(missing.error().what, HasSubstr("/nowhere/metrics"));
  for (const char* lines : {"", "{\"event\":\"step\"}\nno json\n[1]\n"})
    EXPECT_THAT(read_back("none", lines).error().what, HasSubstr("\"event\": \"summary\""));
  for (const char* rate : {"0", "null", "\"fast\""})
    EXPECT_THAT(read_back("none", std::string(R"({"event":"summary","train_samples_per_second":)") +
                                      rate + "}")
                    .error()
                    .what,
                HasSubstr("more steps"));
}

}  // namespace

}  // namespace paceline::cli
