#include "paceline/core/server/vectors/vector_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::server {
namespace {

using testing::HasSubstr;

VectorShape some_shape() {
  return {.name = "sandblaster",
          .elements = 1003,
          .dtype = Dtype::f64,
          .samples = 123'456'789,
          .portion = 1000,
          .history = 7,
          .members = TableMembers::of_servers(3, 4)};
}

TEST(VectorShape, ShardsAreNeighboursThatDifferByOneElementAtMost) {
  for (std::size_t elements = 1; elements < 30; ++elements) {
    for (int servers = 1; servers < 9; ++servers) {
      VectorShape shape = some_shape();
      shape.elements = elements;
      shape.members = TableMembers::of_servers(2, servers);
      std::size_t next = 0;
      for (std::size_t i = 0; i < shape.servers(); ++i) {
        EXPECT_EQ(shape.shard(i).begin, next);
        next += shape.shard(i).count;
        EXPECT_LE(shape.shard(0).count - shape.shard(i).count, 1u);
      }
      EXPECT_EQ(next, elements);
    }
  }
}

TEST(VectorShape, TheLastPortionIsAsShortAsItHasToBe) {
  const VectorShape shape = some_shape();
  EXPECT_EQ(shape.portions(), 123'457);
  EXPECT_EQ(shape.end_of(0), 1000);
  EXPECT_EQ(shape.begin_of(123'456), 123'456'000);
  EXPECT_EQ(shape.end_of(123'456), shape.samples);
  EXPECT_EQ(shape.window(), 6);
}

TEST(VectorShape, IsReadAsItWasDeclared) {
  const VectorShape shape = some_shape();
  const VectorShape read = vector_shape_of(declaration_of(shape), shape.members).value();
  EXPECT_EQ(declaration_of(read).rule, declaration_of(shape).rule);
  EXPECT_EQ(read.samples, shape.samples);
  EXPECT_EQ(read.portion, shape.portion);
  EXPECT_EQ(read.history, shape.history);
  EXPECT_EQ(read.dtype, shape.dtype);
  TableSpec other = declaration_of(shape);
  other.rule = "samples=3,portions=4";
  EXPECT_FALSE(vector_shape_of(other, shape.members));
}

TEST(VectorShape, WhatMakesNoSenseIsNamed) {
  const auto complaint = [](const auto& change) {
    VectorShape shape = some_shape();
    change(shape);
    const auto checked = check_vectors(shape);
    return checked ? "" : checked.error().what;
  };
  EXPECT_EQ(complaint([](VectorShape&) {}), "");
  EXPECT_THAT(complaint([](VectorShape& one) { one.portion = 0; }),
              HasSubstr("'sandblaster': a portion has 0 samples: give it one or more"));
  EXPECT_THAT(complaint([](VectorShape& one) { one.samples = 0; }), HasSubstr("has 0 samples"));
  EXPECT_THAT(complaint([](VectorShape& one) { one.elements = 0; }), HasSubstr("no parameters"));
  EXPECT_THAT(complaint([](VectorShape& one) { one.history = 101; }), HasSubstr("1 to 100"));
  EXPECT_THAT(complaint([](VectorShape& one) { one.portion = 1; }), HasSubstr("longer portions"));
  EXPECT_THAT(complaint([](VectorShape& one) { one.dtype = Dtype::bf16; }),
              HasSubstr("f32 or f64"));
  EXPECT_THAT(complaint([](VectorShape& one) { one.members.servers.clear(); }),
              HasSubstr("--servers N"));
}

TEST(VectorShape, AServerThatCannotHoldItsShardsSaysSo) {
  VectorShape shape = some_shape();
  shape.elements = std::size_t{1} << 40;
  const auto checked = check_memory(shape, 3, transport::memory_bound());
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().what, HasSubstr("19 vectors of its 1099511627776 parameters of f64"));
}

}  // namespace
}  // namespace paceline::server
