// stdin goes to rank 0 alone, from a pipe, a file or a terminal (covers
// paceline/app/launch/output/input.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

#include "tests/support/launched.h"

namespace paceline::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(RunInput, APipeIsReadByRankZeroAlone) {
  Process launcher(run_probe(3, {"echo"}));
  launcher.write("first\nsecond\n");
  EXPECT_TRUE(launcher.wait_for_output("[1] end of input", Deadline::in(10s)));
  EXPECT_TRUE(launcher.wait_for_output("[2] end of input", Deadline::in(10s)));
  EXPECT_TRUE(launcher.wait_for_output("[0] second", Deadline::in(10s)));
  launcher.close_input();
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(10s))), 0);
  EXPECT_THAT(launcher.output(), HasSubstr("[0] first\n"));
  EXPECT_THAT(launcher.output(), HasSubstr("[0] end of input\n"));
  EXPECT_THAT(launcher.output(), Not(HasSubstr("[1] first")));
}

TEST(RunInput, AFileIsReadByRankZero) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  std::fputs("a line of the file\n", file.get());
  std::rewind(file.get());
  auto options = run_probe(2, {"echo"});
  options.input = ::fileno(file.get());
  EXPECT_THAT(run(options).output, HasSubstr("[0] a line of the file\n"));
}

TEST(RunInput, ATerminalIsRelayedToRankZero) {
  auto options = run_probe(2, {"echo"});
  options.new_terminal = true;
  options.environment["NO_COLOR"] = "1";
  Process launcher(options);
  ASSERT_TRUE(launcher.wait_for_output("[1] end of input", Deadline::in(10s)));
  launcher.write("typed\n");
  EXPECT_TRUE(launcher.wait_for_output("[0] typed", Deadline::in(10s)));
  launcher.write("\x04");  // Ctrl-D
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(10s))), 0);
  EXPECT_THAT(launcher.output(), HasSubstr("[0] end of input"));
}

TEST(RunInput, ATerminalsControlCIsForwarded) {
  auto options = run_probe(2, {"catch:0"});
  options.new_terminal = true;
  options.environment["NO_COLOR"] = "1";
  Process launcher(options);
  ASSERT_EQ(ready(launcher, 2).size(), 2U);
  launcher.write("\x03");
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(10s))), 130);
  EXPECT_THAT(launcher.output(), HasSubstr("[0] caught 2"));
  EXPECT_THAT(launcher.output(), HasSubstr("[1] caught 2"));
}

}  // namespace
}  // namespace paceline::test
