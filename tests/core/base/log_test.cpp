#include "paceline/core/base/log.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(LogLevel, WarningsAreAlwaysToldAndTheRestAsFarAsItIsWanted) {
  const auto told = [](const char* wanted) {
    set_log_level(log_level_of(wanted).value());
    ::testing::internal::CaptureStderr();
    warn("w");
    log_info("i");
    log_debug("d");
    set_log_level(LogLevel::info);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(told("quiet"), "paceline: w\n");
  EXPECT_EQ(told("info"), "paceline: w\npaceline: i\n");
  EXPECT_EQ(told("debug"), "paceline: w\npaceline: i\npaceline: d\n");
  EXPECT_FALSE(log_level_of("loud"));
}

}  // namespace
}  // namespace paceline
