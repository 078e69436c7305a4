// Also covers paceline/core/server/sparse/sparse_rule.cpp.
#include "paceline/core/server/sparse/sparse_spec.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace paceline::server {
namespace {

using testing::HasSubstr;

SparseShape sparse_shape(int servers,
                         const SparseTableSpec& spec = {.name = "users", .width = 16}) {
  return shape_of(spec, TableMembers::of_servers(2, servers)).value();
}

std::string refusal_of(const SparseTableSpec& spec) {
  const auto shape = shape_of(spec, TableMembers::of_servers(2, 1));
  return shape ? "" : shape.error().what;
}

TEST(SparseSpec, WhatMakesNoSenseIsRefusedByItsName) {
  EXPECT_EQ(refusal_of({.name = "u", .width = 1}), "");
  EXPECT_THAT(refusal_of({.name = "u", .width = 0}), HasSubstr("its rows have 0 elements"));
  EXPECT_THAT(refusal_of({.name = "u", .width = 1, .dtype = Dtype::i64}), HasSubstr("i64"));
  EXPECT_THAT(refusal_of({.name = "u", .width = 1, .synchrony = "timeout"}),
              HasSubstr("a sparse table has bsp, ssp or asp"));
  EXPECT_THAT(refusal_of({.name = "u", .width = 1, .synchrony = "asp:update=worker"}),
              HasSubstr("leave update=server"));
  EXPECT_THAT(refusal_of({.name = "u", .width = 1, .rule = "rmsprop"}), HasSubstr("rmsprop"));
  EXPECT_THAT(refusal_of({.name = "u", .width = 1, .rule = "sgd:momentum=0.9"}),
              HasSubstr("rows that nobody pushes"));
  EXPECT_THAT(refusal_of({.name = "u", .width = 1, .rule = "adagrad:weight_decay=0.1"}),
              HasSubstr("rows that nobody pushes"));
  EXPECT_THAT(refusal_of({.name = "u", .width = 1, .spread = -1}), HasSubstr("spread"));
  for (const int bad : {-1, kMostAdmitAfter + 1})
    EXPECT_THAT(refusal_of({.name = "u", .width = 1, .admit_after = bad}),
                HasSubstr(fmt::format("its admit_after is {}", bad)));
  for (const std::int64_t bad : {std::int64_t{-1}, kMostEvictAfter + 1})
    EXPECT_THAT(refusal_of({.name = "u", .width = 1, .evict_after = bad}),
                HasSubstr(fmt::format("its evict_after is {}", bad)));
  EXPECT_EQ(refusal_of({.name = "u",
                        .width = 1,
                        .admit_after = kMostAdmitAfter,
                        .evict_after = kMostEvictAfter}),
            "");
}

TEST(SparseSpec, ADenseTableRefusesOneNumberARow) {
  const auto dense = shape_of(TableSpec{.name = "w", .elements = 4, .rule = "adagrad:per=row"},
                              TableMembers::of_servers(1, 1));
  ASSERT_FALSE(dense);
  EXPECT_THAT(dense.error().what, HasSubstr("per"));
}

TEST(SparseSpec, APerRowRuleKeepsOneNumberARow) {
  EXPECT_EQ(sparse_shape(1).state_bytes(), 64u);
  EXPECT_EQ(sparse_shape(1, {.name = "u", .width = 16, .rule = "adagrad:per=row"}).state_bytes(),
            4u);
  EXPECT_EQ(sparse_shape(1, {.name = "u", .width = 16, .rule = "sgd"}).state_bytes(), 0u);
  EXPECT_EQ(sparse_shape(1, {.name = "u", .width = 16, .rule = "adam"}).state_bytes(), 128u);
}

TEST(SparseSpec, ATableThatEvictsHasAStampOfOneElementARow) {
  EXPECT_EQ(
      sparse_shape(1, {.name = "u", .width = 3, .rule = "sgd", .evict_after = 1}).state_bytes(),
      4u);
  EXPECT_EQ(sparse_shape(1, {.name = "u",
                             .width = 3,
                             .dtype = Dtype::f64,
                             .rule = "adagrad:per=row",
                             .evict_after = 9})
                .state_bytes(),
            16u);
  EXPECT_EQ(
      sparse_shape(1, {.name = "u", .width = 3, .rule = "sgd", .admit_after = 9}).state_bytes(),
      0u);
}

TEST(SparseSpec, ArcsAreEqualAndDealtEvenly) {
  for (const int servers : {1, 2, 3, 7}) {
    const SparseShape shape = sparse_shape(servers);
    std::vector<int> ids_of_arc(shape.arcs());
    constexpr int kIds = 448'000;
    for (std::uint64_t id = 0; id < kIds; ++id) {
      const std::uint64_t hash = hash_of_id(id), arc = shape.arc_of(hash);
      ++ids_of_arc[arc];
      EXPECT_EQ(shape.share_of(hash), arc % servers);
      EXPECT_LT(shape.place_of(arc), static_cast<std::size_t>(kArcsPerServer));
    }
    const double mean = static_cast<double>(kIds) / static_cast<double>(shape.arcs());
    for (const int ids : ids_of_arc) EXPECT_NEAR(ids, mean, 6 * std::sqrt(mean));
  }
}

TEST(SparseSpec, WhatARowBeginsWithFollowsFromSeedTableAndIdAlone) {
  const auto begun = [](const SparseShape& shape, std::uint64_t id) {
    std::vector<float> row(16);
    begin_row(shape, id, reinterpret_cast<std::byte*>(row.data()));
    return row;
  };
  const auto one = begun(sparse_shape(1), 77);
  EXPECT_EQ(one, begun(sparse_shape(7), 77));
  EXPECT_NE(one, begun(sparse_shape(1), 78));
  EXPECT_NE(one, begun(sparse_shape(1, {.name = "items", .width = 16}), 77));
  EXPECT_NE(one, begun(sparse_shape(1, {.name = "users", .width = 16, .seed = 1}), 77));
  EXPECT_THAT(one, testing::Each(testing::AllOf(testing::Ge(-0.01f), testing::Lt(0.01f))));
  EXPECT_EQ(std::set<float>(one.begin(), one.end()).size(), 16u);
}

TEST(SparseSpec, MembersThatMeanAnotherTableHaveAnotherFingerprint) {
  const SparseTableSpec spec{.name = "users", .width = 16};
  const std::uint64_t own = sparse_shape(2, spec).fingerprint();
  EXPECT_EQ(own, sparse_shape(2, spec).fingerprint());
  SparseTableSpec other = spec;
  other.width = 17;
  EXPECT_NE(own, sparse_shape(2, other).fingerprint());
  other = spec;
  other.rule = "adagrad:rate=0.02";
  EXPECT_NE(own, sparse_shape(2, other).fingerprint());
  other = spec;
  other.admit_after = 2;
  EXPECT_NE(own, sparse_shape(2, other).fingerprint());
  other = spec;
  other.evict_after = 2;
  EXPECT_NE(own, sparse_shape(2, other).fingerprint());
  EXPECT_NE(own, sparse_shape(3, spec).fingerprint());
}

}  // namespace
}  // namespace paceline::server
