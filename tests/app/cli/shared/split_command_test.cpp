#include "paceline/app/cli/shared/split_command.h"

#include <gtest/gtest.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "paceline/core/base/result.h"

namespace paceline::cli {
namespace {

using Words = std::vector<std::string>;

SplitCommand split(const Words& words) {
  CLI::App app;
  std::string count;
  bool quiet = false;
  app.add_option("-n,--np", count);
  app.add_flag("--quiet", quiet);
  return split_command(app, words);
}

TEST(SplitCommand, EndsTheOptionsAtTheFirstWordThatIsNone) {
  EXPECT_EQ(split({"-n", "2", "prog", "-n", "3", "--"}),
            (SplitCommand{{"-n", "2"}, {"prog", "-n", "3", "--"}}));
  EXPECT_EQ(split({"--quiet", "prog"}), (SplitCommand{{"--quiet"}, {"prog"}}));
  EXPECT_EQ(split({"--np=2", "-n3", "prog"}), (SplitCommand{{"--np=2", "-n3"}, {"prog"}}));
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

}  // namespace
}  // namespace paceline::cli
