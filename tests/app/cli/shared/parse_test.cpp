#include "paceline/app/cli/shared/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "paceline/core/base/result.h"

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;

TEST(Parse, takes_words_in_their_order_and_names_what_it_does_not_know) {
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

TEST(Parse, help_goes_to_stdout_and_ends_it) {
  CLI::App app("Does this.", "paceline sample");
  ::testing::internal::CaptureStdout();
  EXPECT_FALSE(parse(app, {"--help"}));
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), HasSubstr("Does this."));
}

}  // namespace
}  // namespace paceline::cli
