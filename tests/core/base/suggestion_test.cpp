#include "paceline/core/base/suggestion.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(Suggestion, IsTheNearestWithinAFewLetters) {
  EXPECT_EQ(suggestion("--grce", {"--timeout", "--grace"}), "; did you mean --grace?");
  EXPECT_EQ(suggestion("tpc", {"shm", "tcp"}), "; did you mean tcp?");
  EXPECT_EQ(suggestion("--elephant", {"--timeout", "--grace"}), "");
  EXPECT_EQ(suggestion("x", {"a"}), "") << "a word of which nothing is left is no suggestion";
  EXPECT_EQ(suggestion("x", {}), "");
}

}  // namespace
}  // namespace paceline
