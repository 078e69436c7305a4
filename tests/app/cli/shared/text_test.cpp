#include "paceline/app/cli/shared/text.h"

#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

TEST(Columns, AreAsWideAsTheirLongestCellAndEndWithoutSpaces) {
  EXPECT_EQ(
      in_columns({{"name", "size", "for"}, {"a", "5", "much"}, {"longer", "123456", ""}}, {1}),
      "name      size  for\n"
      "a            5  much\n"
      "longer  123456\n");
  EXPECT_EQ(in_columns({}, {}), "");
}

}  // namespace
}  // namespace paceline::cli
