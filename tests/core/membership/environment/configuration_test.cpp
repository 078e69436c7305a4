#include "paceline/core/membership/environment/configuration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/base/version.h"

namespace paceline::membership {
namespace {

using namespace std::chrono_literals;

TEST(Configuration, OfEqualRanksIsEqual) {
  Environment a, b;
  b.rank = 3;
  b.local_rank = 1;
  b.job = "another name";  // which the handshake compares
  EXPECT_EQ(configuration_of(a), configuration_of(b));
  EXPECT_FALSE(first_difference(configuration_of(a), 0, configuration_of(b), 3));
}

TEST(Configuration, TheFirstDifferenceIsNamedWithBothValuesAndTheRemedy) {
  Environment own, other;
  other.operation_timeout = 30s;
  auto failure = first_difference(configuration_of(own), 0, configuration_of(other), 2);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->fault, Fault::mismatch);
  EXPECT_EQ(failure->ranks, (std::vector{0, 2}));
  EXPECT_EQ(failure->what,
            "the ranks differ in their operation_timeout: rank 0 has 600000 ms, rank 2 has 30000 "
            "ms; set PACELINE_OPERATION_TIMEOUT "
            "(paceline run --operation-timeout) to the same on all ranks");
  other.reproducible = false;
  failure = first_difference(configuration_of(own), 2, configuration_of(other), 1);
  EXPECT_THAT(failure->what,
              ::testing::HasSubstr("determinism: rank 1 has fast, rank 2 has reproducible"))
      << "the lower rank first";
}

TEST(Configuration, AnotherVersionIsNamedBeforeAllElse) {
  const std::string own = configuration_of({});
  std::string other = own;
  other.replace(other.find(kVersion), std::string(kVersion).size(), "9.9");
  other += "something_new=1\n";
  const auto failure = first_difference(own, 0, other, 1);
  EXPECT_THAT(failure->what, ::testing::HasSubstr(std::string("version: rank 0 has ") + kVersion +
                                                  ", rank 1 has 9.9; install the same"));
  EXPECT_THAT(first_difference(own, 0, own + "new=1\n", 1)->what,
              ::testing::HasSubstr("new: rank 0 has none, rank 1 has 1"));
}

}  // namespace
}  // namespace paceline::membership
