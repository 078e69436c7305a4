// Mistakes in the word after `paceline simulate`. Also covers paceline/app/cli/commands/simulate.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/app/cli/commands/subcommand_entries.h"

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;

TEST(Simulate, WithoutASimulationOrWithAnUnknownOneIsAWrongUse) {
  EXPECT_EQ(catalogue::simulate().main({}), kUsage);
  EXPECT_EQ(catalogue::simulate().main({"surveys"}), kUsage);
  EXPECT_EQ(catalogue::simulate().main({"--help"}), 0);
}

TEST(Simulate, TellsInALineWhereTheSurveyIsNow) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(catalogue::simulate().main({"survey", "--json", "-"}), kUsage);
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr("--target bench_survey"));
  EXPECT_EQ(told.find('\n'), told.size() - 1);
}

}  // namespace
}  // namespace paceline::cli
