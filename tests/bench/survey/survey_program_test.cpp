#include "bench/survey/survey_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/base/result.h"

namespace paceline::survey {
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
      survey_main(arguments);
      ADD_FAILURE() << ::testing::PrintToString(arguments) << " is taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::misuse) << error.what();
      for (const std::string& text : says) EXPECT_THAT(error.what(), HasSubstr(text));
    }
  }
}

}  // namespace
}  // namespace paceline::survey
