#include "paceline/core/base/own_lines.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(OwnLines, WarningsAreAlwaysToldAndTheRestAsFarAsItIsWanted) {
  const auto told = [](const char* wanted) {
    set_own_lines(own_lines_of(wanted).value());
    ::testing::internal::CaptureStderr();
    warn("w");
    inform("i");
    inform_debug("d");
    set_own_lines(OwnLines::info);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(told("quiet"), "paceline: w\n");
  EXPECT_EQ(told("info"), "paceline: w\npaceline: i\n");
  EXPECT_EQ(told("debug"), "paceline: w\npaceline: i\npaceline: d\n");
  EXPECT_FALSE(own_lines_of("loud"));
}

}  // namespace
}  // namespace paceline
