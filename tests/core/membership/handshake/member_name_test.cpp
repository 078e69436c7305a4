#include "paceline/core/membership/handshake/member_name.h"

#include <gtest/gtest.h>

namespace paceline::membership {
namespace {

TEST(MemberName, RanksKeepTheirNumbersAndServersAreCountedAfterThem) {
  EXPECT_EQ(member_name(0, 3), "rank 0");
  EXPECT_EQ(member_name(2, 3), "rank 2");
  EXPECT_EQ(member_name(3, 3), "server 0");
  EXPECT_EQ(member_name(5, 3), "server 2");
}

}  // namespace
}  // namespace paceline::membership
