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

TEST(MemberName, SeveralAreNamedTogetherByTheirRoles) {
  EXPECT_EQ(member_names({1}, 3), "rank 1");
  EXPECT_EQ(member_names({1, 2}, 3), "ranks 1, 2");
  EXPECT_EQ(member_names({3}, 3), "server 0");
  EXPECT_EQ(member_names({3, 4}, 3), "servers 0, 1");
  EXPECT_EQ(member_names({0, 2, 4}, 3), "ranks 0, 2 and server 1");
}

}  // namespace
}  // namespace paceline::membership
