#include "paceline/core/server/table/table_numbers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

namespace paceline::server {
namespace {

TEST(TableNumbers, EveryTableHasItsOwnWhichAllMembersGiveItThatMadeTheSameBefore) {
  TableNumbers one, other;
  std::set<std::uint32_t> all;
  for (int round = 0; round < 20'000; ++round) {
    const std::string name = fmt::format("table {}", round % 500);
    const std::uint32_t number = one.next(name);
    EXPECT_EQ(number % 4, 2u) << "tables of servers have 0, groups of communicators odd numbers";
    EXPECT_TRUE(all.insert(number).second) << round;
    EXPECT_EQ(other.next(name), number);
  }
}

}  // namespace
}  // namespace paceline::server
