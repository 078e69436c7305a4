#include "paceline/core/collective/operation.h"

#include <gtest/gtest.h>

#include <set>

namespace paceline {
namespace {

TEST(Operation, HasTheNumbersOfTheWireFormat) {
  EXPECT_EQ(static_cast<int>(Operation::all_reduce), 1);
  EXPECT_EQ(static_cast<int>(Operation::reduce_scatter), 2);
  EXPECT_EQ(static_cast<int>(Operation::all_gather), 3);
  EXPECT_EQ(static_cast<int>(Operation::broadcast), 4);
  EXPECT_EQ(static_cast<int>(Operation::barrier), 5);
  EXPECT_EQ(static_cast<int>(Operation::send), 6);
  EXPECT_EQ(static_cast<int>(Operation::recv), 7);
}

TEST(Operation, HasANameOfItsOwnOrUnknown) {
  std::set<std::string_view> names;
  for (int number = 1; number <= 7; ++number) names.insert(name_of(static_cast<Operation>(number)));
  EXPECT_EQ(names.size(), 7u);
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(name_of(static_cast<Operation>(0)), "unknown");
  EXPECT_EQ(name_of(static_cast<Operation>(8)), "unknown");
}

TEST(Operation, IsAReductionWhenItAddsUp) {
  EXPECT_TRUE(is_reduction(Operation::all_reduce));
  EXPECT_TRUE(is_reduction(Operation::reduce_scatter));
  for (const Operation operation : {Operation::all_gather, Operation::broadcast, Operation::barrier,
                                    Operation::send, Operation::recv}) {
    EXPECT_FALSE(is_reduction(operation)) << name_of(operation);
  }
}

}  // namespace
}  // namespace paceline
