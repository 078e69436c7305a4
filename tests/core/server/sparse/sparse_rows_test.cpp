#include "paceline/core/server/sparse/sparse_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "paceline/core/base/result.h"
#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

using testing::HasSubstr;

SparseShape rows_shape(int servers) {
  return shape_of(SparseTableSpec{.name = "u", .width = 3, .dtype = Dtype::f64},
                  TableMembers::of_servers(1, servers))
      .value();
}

TEST(SparseRows, SumsRepeatedIdsInTheOrderInWhichTheyOccur) {
  SeededNumbers numbers(test::seed(3110000));
  for (const int servers : {1, 2, 3}) {
    const SparseShape shape = rows_shape(servers);
    std::vector<std::int64_t> ids(200);
    std::vector<double> rows(600);
    std::map<std::int64_t, std::vector<double>> sums;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<std::int64_t>(numbers.below(40));
      for (std::size_t j = 0; j < 3; ++j) rows[3 * i + j] = numbers.unit();
      const auto [sum, is_first] = sums.try_emplace(ids[i], std::vector<double>(3));
      for (std::size_t j = 0; j < 3; ++j)
        sum->second[j] = is_first ? rows[3 * i + j] : sum->second[j] + rows[3 * i + j];
    }
    const SharedPlan plan = plan_of(ids, shape);
    const auto summed = summed_rows(*plan, std::as_bytes(std::span(rows)), shape);
    std::size_t found = 0;
    for (std::size_t share = 0; share < summed.size(); ++share) {
      const IdList& list = *plan->shares[share].ids;
      EXPECT_TRUE(std::ranges::is_sorted(list));
      for (std::size_t i = 0; i < list.size(); ++i, ++found) {
        EXPECT_EQ(shape.share_of(hash_of_id(list[i])), share);
        std::vector<double> row(3);
        std::memcpy(row.data(), summed[share].data() + i * 24, 24);
        EXPECT_EQ(row, sums.at(static_cast<std::int64_t>(list[i])));
      }
    }
    EXPECT_EQ(found, sums.size());
  }
}

TEST(SparseRows, IdsBeyond48BitsAreRefusedByTheirPlace) {
  const SparseShape shape = rows_shape(2);
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{1} << 48, std::int64_t{1} << 62}) {
    try {
      plan_of(std::vector<std::int64_t>{5, bad}, shape);
      FAIL() << bad;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("at place 1: ids of a sparse table have 48 bits"));
    }
  }
  EXPECT_NO_THROW(plan_of(std::vector<std::int64_t>{(std::int64_t{1} << 48) - 1}, shape));
}

TEST(SparseRows, OfTwoListsAddWhereBothHaveAnId) {
  const SparseShape shape = rows_shape(1);
  const auto rows_of = [](const IdList& ids, double first) {
    std::vector<double> values(3 * ids.size(), first);
    const Bytes bytes = std::as_bytes(std::span(values));
    return SparseRows{std::make_shared<const IdList>(ids), {bytes.begin(), bytes.end()}};
  };
  SparseRows sum = rows_of({1, 4, 9}, 1);
  add_rows(sum, rows_of({0, 4, 10}, 2), shape);
  EXPECT_EQ(*sum.ids, (IdList{0, 1, 4, 9, 10}));
  std::vector<double> values(15);
  std::memcpy(values.data(), sum.rows.data(), sum.rows.size());
  EXPECT_EQ(values, (std::vector<double>{2, 2, 2, 1, 1, 1, 3, 3, 3, 1, 1, 1, 2, 2, 2}));
}

TEST(SparseRows, TwoCachesThatSeeTheSameListsKnowTheSame) {
  SeededNumbers numbers(test::seed(3120000));
  ListCache one, other;
  std::vector<SharedIds> lists;
  for (std::uint64_t i = 0; i < 12; ++i) lists.push_back(std::make_shared<const IdList>(IdList{i}));
  int known = 0;
  for (int number = 0; number < 5000; ++number) {
    const SharedIds& ids = lists[numbers.below(lists.size())];
    const ListKey key = key_of(*ids);
    const SharedIds here = one.find(key);
    const SharedIds there = other.find(key);
    ASSERT_EQ(here == nullptr, there == nullptr);
    known += here ? 1 : 0;
    if (!here) one.put(key, ids);
    if (!there) other.put(key, ids);
  }
  EXPECT_GT(known, 2000);
  EXPECT_LT(known, 4900);
}

}  // namespace
}  // namespace paceline::server
