#include "paceline/core/base/number.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace paceline {
namespace {

TEST(Number, IsTheWholeTextOrNothing) {
  EXPECT_EQ(number_in<int>("-12"), -12);
  EXPECT_EQ(number_in<double>("1.5e3"), 1500.0);
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "0x1", "--1"})
    EXPECT_FALSE(number_in<int>(text)) << text;
}

TEST(Number, ThatDoesNotFitIsNothing) {
  EXPECT_EQ(number_in<std::int8_t>("127"), 127);
  EXPECT_FALSE(number_in<std::int8_t>("128"));
  EXPECT_FALSE(number_in<unsigned>("-1"));
}

}  // namespace
}  // namespace paceline
