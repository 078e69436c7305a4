#include "paceline/core/server/sparse/any_table_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

const SparseTableSpec kUsers{.name = "users",
                             .width = 16,
                             .dtype = Dtype::f64,
                             .synchrony = "asp",
                             .rule = "adagrad:per=row",
                             .seed = 7,
                             .spread = 0.5,
                             .admit_after = 3,
                             .evict_after = std::int64_t{1} << 20};

TEST(AnyTableSpec, ADeclarationComesBackAsItWasSent) {
  auto parsed = parse_sparse_table_spec(encode(kUsers));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(encode(*parsed), encode(kUsers));
  EXPECT_FALSE(first_difference(*parsed, kUsers));
  EXPECT_EQ(name_of(AnyTableSpec(*parsed)), "users");
}

TEST(AnyTableSpec, TheFirstDifferenceIsNamedWithBothSides) {
  const auto difference = [](const AnyTableSpec& other) {
    return first_difference(kUsers, other).value().setting;
  };
  SparseTableSpec other = kUsers;
  other.width = 8;
  EXPECT_EQ(difference(other), "width");
  other = kUsers;
  other.seed = 8;
  EXPECT_EQ(difference(other), "seed");
  other = kUsers;
  other.spread = 0.25;
  EXPECT_EQ(difference(other), "spread");
  other = kUsers;
  other.admit_after = 4;
  EXPECT_EQ(difference(other), "admit_after");
  other = kUsers;
  other.evict_after = 0;
  EXPECT_EQ(difference(other), "evict_after");
  EXPECT_EQ(difference(TableSpec{.name = "users", .elements = 16}), "kind");
}

TEST(AnyTableSpec, NoBytesAreReadBeyondWhatCame) {
  SeededNumbers numbers(test::seed(3260000));
  for (int number = 0; number < 100'000; ++number) {
    auto bytes = encode(kUsers);
    if (numbers.below(2) == 0) bytes.resize(numbers.below(bytes.size() + 9));
    if (!bytes.empty()) bytes[numbers.below(bytes.size())] ^= std::byte(1 << numbers.below(8));
    auto parsed = parse_sparse_table_spec(bytes);
    EXPECT_TRUE(!parsed || parsed->name.size() <= bytes.size());
  }
  EXPECT_FALSE(parse_sparse_table_spec({}));
}

}  // namespace
}  // namespace paceline::server
