#include "paceline/core/collective/program/operation.h"

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
  EXPECT_EQ(static_cast<int>(Operation::reduce), 8);
  EXPECT_EQ(static_cast<int>(Operation::gather), 9);
  EXPECT_EQ(static_cast<int>(Operation::scatter), 10);
  EXPECT_EQ(static_cast<int>(Operation::all_to_all), 11);
}

TEST(Operation, HasANameOfItsOwnOrUnknown) {
  std::set<std::string_view> names;
  for (int number = 1; number <= 11; ++number)
    names.insert(name_of(static_cast<Operation>(number)));
  EXPECT_EQ(names.size(), 11u);
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(name_of(static_cast<Operation>(0)), "unknown");
  EXPECT_EQ(name_of(static_cast<Operation>(12)), "unknown");
}

TEST(Operation, IsAReductionWhenItAddsUp) {
  EXPECT_TRUE(is_reduction(Operation::all_reduce));
  EXPECT_TRUE(is_reduction(Operation::reduce_scatter));
  EXPECT_TRUE(is_reduction(Operation::reduce));
  for (const Operation operation :
       {Operation::all_gather, Operation::broadcast, Operation::barrier, Operation::send,
        Operation::recv, Operation::gather, Operation::scatter, Operation::all_to_all}) {
    EXPECT_FALSE(is_reduction(operation)) << name_of(operation);
  }
}

TEST(Operation, HasARootWhereOneRankIsSpecial) {
  for (int number = 1; number <= 11; ++number) {
    const auto operation = static_cast<Operation>(number);
    const bool wanted = operation == Operation::broadcast ||
                        (operation >= Operation::reduce && operation <= Operation::scatter);
    EXPECT_EQ(has_root(operation), wanted) << name_of(operation);
  }
}

}  // namespace
}  // namespace paceline
