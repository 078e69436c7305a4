#include "paceline/core/server/table/table_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const TableMembers kFourAndTwo = {{0, 1, 2, 3}, {4, 5}};

std::string refusal_of(const TableSpec& spec, const TableMembers& members = kFourAndTwo) {
  const auto shape = shape_of(spec, members);
  return shape ? "" : shape.error().what;
}

TEST(TableSpec, WhatMakesNoSenseIsRefusedWithTheTablesNameAndTheRemedy) {
  const TableSpec good = {.name = "w", .elements = 10};
  EXPECT_EQ(refusal_of(good), "");
  TableSpec spec = good;
  spec.elements = 0;
  EXPECT_THAT(refusal_of(spec), HasSubstr("table 'w': it has no elements"));
  spec = good;
  spec.dtype = Dtype::i32;
  EXPECT_THAT(refusal_of(spec), HasSubstr("servers compute in f32 or f64"));
  spec = good;
  spec.synchrony = "sps";
  EXPECT_THAT(refusal_of(spec),
              AllOf(HasSubstr("no synchrony 'sps'"),
                    HasSubstr("admm, asp, backup_workers, bounded_delay, "
                              "bsp, dc_asgd, downpour, elastic, ssp, staleness_aware, timeout")));
  spec.synchrony = "ssp:staleness=-1";
  EXPECT_THAT(refusal_of(spec), HasSubstr("staleness of ssp is a whole number from 0"));
  spec.synchrony = "backup_workers:spare=4";
  EXPECT_THAT(refusal_of(spec), HasSubstr("spare is 4, and there are 4 workers"));
  spec.synchrony = "timeout:quorum=5";
  EXPECT_THAT(refusal_of(spec), HasSubstr("quorum is 5, and there are 4 workers"));
  spec.synchrony = "ssp:update=worker";
  EXPECT_THAT(refusal_of(spec), HasSubstr("the rule add goes with update=worker"));
  spec.rule = "add";
  EXPECT_EQ(refusal_of(spec), "");
  spec.synchrony = "elastic";
  EXPECT_EQ(refusal_of(spec), "");
  spec.rule = "sgd";
  EXPECT_THAT(refusal_of(spec), HasSubstr("the rule add goes with update=worker and with elastic"));
  spec = good;
  spec.synchrony = "staleness_aware:softsync=5";
  EXPECT_THAT(refusal_of(spec), HasSubstr("set softsync to at most 4"));
  spec.synchrony = "dc_asgd";
  EXPECT_EQ(refusal_of(spec), "");
  spec.replicas = 2;
  EXPECT_THAT(refusal_of(spec), AllOf(HasSubstr("only one of the 2 replicas of a range knows"),
                                      HasSubstr("--replicas 1")));
  spec = good;
  spec.name = std::string(1001, 'w');
  EXPECT_THAT(refusal_of(spec), HasSubstr("its name has 1001 characters, and may have 1000"));
  spec = good;
  spec.elements = std::size_t{1} << 62;
  EXPECT_THAT(refusal_of(spec), HasSubstr("its 4611686018427387904 elements of f32 are more than "
                                          "any memory holds"));
  spec.elements = std::size_t{1} << 26;
  spec.part_bytes = 4;
  EXPECT_THAT(refusal_of(spec), HasSubstr("are 67108864 parts of 4 bytes, and may be 1048576: set "
                                          "part_bytes higher"));
  EXPECT_THAT(refusal_of(good, {{0}, {}}), HasSubstr("it has no servers"));
  EXPECT_THAT(refusal_of(good, {{}, {0}}), HasSubstr("it has no workers"));
}

// Adam has two slots for each element; servers of half a table each.
TEST(TableSpec, AMemberThatHasNoMemoryForItsPartIsRefusedAndAnotherOneIsNot) {
  const TableShape shape =
      shape_of({.name = "w", .elements = 1000, .rule = "adam", .part_bytes = 4}, kFourAndTwo)
          .value();
  EXPECT_EQ(shape.bytes_on(0), 4000u);
  EXPECT_EQ(shape.bytes_on(4), 6000u);
  EXPECT_TRUE(check_memory(shape, 0, {4000}));
  EXPECT_FALSE(check_memory(shape, 0, {3999}));
  EXPECT_TRUE(check_memory(shape, 5, {6000}));
  const auto refused = check_memory(shape, 5, {5999});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().what, HasSubstr("table 'w': its 1000 elements of f32 take "));
}

// Two servers of half a table each, which keep something of each of the four workers.
TEST(TableSpec, WhatServersKeepOfEachWorkerIsCounted) {
  const auto bytes = [](const char* synchrony, const char* rule) {
    return shape_of({.name = "w",
                     .elements = 1000,
                     .synchrony = synchrony,
                     .rule = rule,
                     .part_bytes = 4},
                    kFourAndTwo)
        .value()
        .bytes_on(4);
  };
  EXPECT_EQ(bytes("dc_asgd", "sgd"), 2000u * (2 + 5));
  EXPECT_EQ(bytes("dc_asgd:variant=adaptive", "sgd"), 2000u * (2 + 1 + 5));
  EXPECT_EQ(bytes("dc_asgd:lambda=0", "sgd"), bytes("asp", "sgd"));
  EXPECT_EQ(bytes("elastic", "add"), 2000u * (1 + 4));
  EXPECT_EQ(bytes("admm", "add"), 2000u * (1 + 3 * 4 + 1));
}

TEST(TableSpec, WhoHasNoMemoryForItsPartIsToldWhatLimitsIt) {
  const TableShape shape =
      shape_of({.name = "w", .elements = std::size_t{3} << 20}, kFourAndTwo).value();
  const auto refusal = [&](const transport::MemoryBound& bound) {
    return check_memory(shape, 0, bound).error().what;
  };
  EXPECT_EQ(
      refusal({std::size_t{8} << 20}),
      "table 'w': its 3145728 elements of f32 take 12 MiB in this process, and 8 MiB of memory "
      "are available: make it smaller, or give it more servers and hosts");
  EXPECT_EQ(refusal({std::size_t{8} << 20, "/sys/fs/cgroup/pod/memory.max"}),
            "table 'w': its 3145728 elements of f32 take 12 MiB in this process, and "
            "/sys/fs/cgroup/pod/memory.max lets it have 8 MiB: make it smaller, or give it more "
            "servers and hosts, or raise that limit");
}

TEST(TableSpec, RangesGiveBackWhatTheyGather) {
  SeededNumbers numbers(test::seed(2910000));
  for (int number = 0; number < 100; ++number) {
    const TableShape shape =
        shape_of(
            {.name = "w", .elements = 1 + numbers.below(500), .part_bytes = 4 + numbers.below(100)},
            kFourAndTwo)
            .value();
    std::vector<std::byte> table(shape.spec.elements * 4), copy(table.size());
    for (std::byte& one : table) one = static_cast<std::byte>(numbers.below(256));
    for (std::size_t range = 0; range < shape.ranges.size(); ++range)
      shape.scatter(range, shape.gathered(range, table), copy);
    EXPECT_EQ(copy, table);
  }
}

TEST(TableSpec, FingerprintsDifferWhereTablesDo) {
  const TableSpec spec = {.name = "w", .elements = 10};
  std::vector<TableSpec> others(6, spec);
  others[0].name = "v";
  others[1].elements = 11;
  others[2].dtype = Dtype::f64;
  others[3].synchrony = "asp";
  others[4].rule = "adam";
  others[5].part_bytes = 1024;
  const auto fingerprint = [](const TableSpec& one, const TableMembers& members) {
    return shape_of(one, members).value().fingerprint();
  };
  for (const TableSpec& other : others)
    EXPECT_NE(fingerprint(other, kFourAndTwo), fingerprint(spec, kFourAndTwo));
  EXPECT_NE(fingerprint(spec, {{0, 1, 2}, {4, 5}}), fingerprint(spec, kFourAndTwo));
  EXPECT_EQ(fingerprint(spec, kFourAndTwo), fingerprint(spec, kFourAndTwo));
}

}  // namespace
}  // namespace paceline::server
