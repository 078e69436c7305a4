// The processor time of waiting for a rank that does not come.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/support/carriers.h"
#include "tests/support/nightly.h"

namespace paceline::test {
namespace {

class Waiting : public ::testing::TestWithParam<Carrier> {
 protected:
  void SetUp() override {
    if (const std::string why = missing(GetParam()); !why.empty())
      GTEST_SKIP() << "NOT TESTED: " << why;
  }
};

TEST_P(Waiting, BurnsLessThanAFiftiethOfACoreAfterTenMilliseconds) {
  const char* const late = is_nightly() ? "3000" : "500";
  const auto result = run_by(GetParam(), 2, {binary("patient"), late});
  ASSERT_EQ(result.exit_code, 0) << result.error << result.output;
  int waits = 0;
  for (const std::string& line : lines_of(result.output)) {
    const auto at = line.find("burnt ");
    if (at == std::string::npos) continue;
    EXPECT_LT(std::atof(line.substr(line.rfind(' ')).c_str()), 2) << line;
    ++waits;
  }
  EXPECT_EQ(waits, 4) << result.output;
}

INSTANTIATE_TEST_SUITE_P(Of, Waiting, ::testing::ValuesIn(carriers()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace paceline::test
