#include "paceline/app/cli/shared/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "paceline/core/base/result.h"
#include "tests/support/misuse.h"

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;

TEST(Parse, TakesWordsInTheirOrderAndNamesWhatItDoesNotKnow) {
  CLI::App app("Does this.", "paceline sample");
  std::vector<std::string> given;
  app.add_option("--word", given);
  EXPECT_TRUE(parse(app, {"--word", "one", "two"}));
  EXPECT_EQ(given, (std::vector<std::string>{"one", "two"}));
  try {
    parse(app, {"--wort"});
    FAIL() << "--wort is no option";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse);
    EXPECT_THAT(error.what(), HasSubstr("--wort"));
  }
}

TEST(Parse, HelpGoesToStdoutAndEndsIt) {
  CLI::App app("Does this.", "paceline sample");
  ::testing::internal::CaptureStdout();
  EXPECT_FALSE(parse(app, {"--help"}));
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("Does this."));
}

using Words = std::vector<std::string>;

SplitCommand split(const Words& words) {
  CLI::App app;
  std::string count;
  bool quiet = false;
  app.add_option("-n,--np", count);
  app.add_flag("--quiet", quiet);
  std::vector<std::string> passed;
  app.add_option("-x", passed)->allow_extra_args(false);
  return split_command(app, words);
}

TEST(SplitCommand, EndsTheOptionsAtTheFirstWordThatIsNone) {
  EXPECT_EQ(split({"-n", "2", "prog", "-n", "3", "--"}),
            (SplitCommand{{"-n", "2"}, {"prog", "-n", "3", "--"}}));
  EXPECT_EQ(split({"--quiet", "prog"}), (SplitCommand{{"--quiet"}, {"prog"}}));
  EXPECT_EQ(split({"-n3", "prog"}), (SplitCommand{{"-n3"}, {"prog"}}));
  EXPECT_EQ(split({"prog"}), (SplitCommand{{}, {"prog"}}));
  EXPECT_EQ(split({"--help"}), (SplitCommand{{"--help"}, {}}));
}

TEST(SplitCommand, EndsTheOptionsAtTwoDashes) {
  EXPECT_EQ(split({"-n", "2", "--", "--quiet", "--"}),
            (SplitCommand{{"-n", "2"}, {"--quiet", "--"}}));
  EXPECT_EQ(split({"--"}), SplitCommand{});
}

TEST(SplitCommand, RefusesUnknownOptionsAndMissingValues) {
  EXPECT_THROW(split({"--bogus", "prog"}), Error);
  EXPECT_THROW(split({"-n"}), Error);
  EXPECT_THROW(split({"--np=", "prog"}), Error);
}

TEST(SplitCommand, RefusesAnOptionThatIsGivenTwiceUnlessItTakesSeveralValues) {
  EXPECT_EQ(test::misuse_of([] {
              split({"--np=2", "-n3", "prog"});
            }),
            "-n is given twice (-n,--np); give it once");
  EXPECT_EQ(split({"-x", "A", "-x", "B", "--quiet", "--quiet", "prog"}).options.size(), 6U);
}

TEST(SplitCommand, KnowsMpirunsSpellingOfTheNumberOfProcesses) {
  EXPECT_EQ(split({"-np", "2", "prog", "-np"}), (SplitCommand{{"--np", "2"}, {"prog", "-np"}}));
}

}  // namespace
}  // namespace paceline::cli
