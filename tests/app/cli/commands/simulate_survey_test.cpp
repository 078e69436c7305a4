// Mistakes in the words after `paceline simulate`. Also covers
// paceline/app/cli/commands/simulate.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/app/cli/commands/subcommand_entries.h"
#include "paceline/core/base/result.h"

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

TEST(SimulateSurvey, WrongUsesAreNamedWithTheirRemedy) {
  const std::pair<Words, Words> uses[] = {
      {{"--calibration", "/nowhere/x.csv"}, {"/nowhere/x.csv cannot be read", "give a CSV"}},
      {{"--bytescheduler", "papr"}, {"\"papr\" is none of scripts, paper", "did you mean paper?"}},
      {{"--jsn", "x"}, {"--jsn"}},
      {{"--json"}, {"--json"}},
  };
  for (const auto& [arguments, says] : uses) {
    try {
      catalogue::simulate_survey().main(arguments);
      ADD_FAILURE() << ::testing::PrintToString(arguments) << " is taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::misuse) << error.what();
      for (const std::string& text : says) EXPECT_THAT(error.what(), HasSubstr(text));
    }
  }
}

TEST(Simulate, WithoutASimulationOrWithAnUnknownOneIsAWrongUse) {
  constexpr int kUsage = 2;
  EXPECT_EQ(catalogue::simulate().main({}), kUsage);
  EXPECT_EQ(catalogue::simulate().main({"surveys"}), kUsage);
  EXPECT_EQ(catalogue::simulate().main({"--help"}), 0);
}

}  // namespace
}  // namespace paceline::cli
