#include "paceline/core/server/wire/declaration.h"

#include <gtest/gtest.h>

#include "paceline/core/base/seed.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

const TableSpec kDeclared = {.name = "w",
                             .elements = 12,
                             .dtype = Dtype::f64,
                             .synchrony = "ssp:staleness=3",
                             .rule = "adam:rate=0.01",
                             .part_bytes = 4096};

TEST(Declaration, IsReadAsItWasTold) {
  auto read = parse_table_spec(encode(kDeclared));
  ASSERT_TRUE(read);
  EXPECT_FALSE(first_difference(kDeclared, *read));
}

TEST(Declaration, EachSettingInWhichTwoTablesDifferIsNamedWithBothValues) {
  const auto difference_after = [](const std::function<void(TableSpec&)>& change) {
    TableSpec other = kDeclared;
    change(other);
    const auto found = first_difference(kDeclared, other);
    return found ? found->setting + " " + found->one + " " + found->other : "none";
  };
  EXPECT_EQ(difference_after([](TableSpec& s) { s.name = "v"; }), "name 'w' 'v'");
  EXPECT_EQ(difference_after([](TableSpec& s) { s.elements = 13; }), "elements 12 13");
  EXPECT_EQ(difference_after([](TableSpec& s) { s.dtype = Dtype::f32; }), "dtype f64 f32");
  EXPECT_EQ(difference_after([](TableSpec& s) { s.synchrony = "bsp"; }),
            "synchrony ssp:staleness=3 bsp");
  EXPECT_EQ(difference_after([](TableSpec& s) { s.rule = "sgd"; }), "rule adam:rate=0.01 sgd");
  EXPECT_EQ(difference_after([](TableSpec& s) { s.part_bytes = 8; }), "part_bytes 4096 8");
  EXPECT_EQ(difference_after([](TableSpec&) {}), "none");
}

TEST(Declaration, ThatIsCutAnywhereOrGoesOnIsRefused) {
  std::vector<std::byte> bytes = encode(kDeclared);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(parse_table_spec(Bytes(bytes).first(length))) << length;
  bytes.push_back({});
  EXPECT_FALSE(parse_table_spec(bytes));
}

TEST(Declaration, AnyBytesAreReadWithoutHarm) {
  SeededNumbers numbers(test::seed(2970000));
  for (int trial = 0; trial < (test::is_brief() ? 2'000 : 100'000); ++trial) {
    std::vector<std::byte> bytes = encode(kDeclared);
    for (int change = 0; change < 3; ++change)
      bytes[static_cast<std::size_t>(numbers.unit() * static_cast<double>(bytes.size()))] =
          static_cast<std::byte>(numbers.unit() * 256);
    (void)parse_table_spec(bytes);
  }
}

}  // namespace
}  // namespace paceline::server
