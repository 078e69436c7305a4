#include "paceline/core/server/table/table_numbers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

namespace paceline::server {
namespace {

TEST(TableNumbers, EveryTableHasItsOwnWhichAllMembersGiveItThatMadeTheSameBefore) {
  TableNumbers one(TableNumbers::Kept::by_servers), other(TableNumbers::Kept::by_servers),
      among(TableNumbers::Kept::among_ranks);
  std::set<std::uint32_t> all;
  for (int round = 0; round < 20'000; ++round) {
    const std::string name = fmt::format("table {}", round % 500);
    const std::uint32_t number = one.next(name);
    EXPECT_EQ(number % 4, 0u) << "groups of communicators have odd numbers";
    EXPECT_TRUE(all.insert(number).second) << round;
    EXPECT_EQ(other.next(name), number);
    EXPECT_TRUE(all.insert(among.next(name)).second) << "servers do not hear of these";
  }
}

}  // namespace
}  // namespace paceline::server
