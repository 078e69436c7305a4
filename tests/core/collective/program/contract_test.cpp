#include "paceline/core/collective/program/contract.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace paceline::collective {
namespace {

constexpr Operation kWithPrograms[] = {
    Operation::all_reduce, Operation::reduce_scatter, Operation::all_gather,
    Operation::broadcast,  Operation::reduce,         Operation::gather,
    Operation::scatter,    Operation::all_to_all,     Operation::barrier};

// "input chunks -> output chunks" of each of 2 ranks, root 1.
std::string table_of(Operation operation) {
  std::string table;
  const int chunks = std::max(2, chunks_needed(operation, 2));
  for (int rank = 0; rank < 2; ++rank) {
    const Shape shape{.ranks = 2, .rank = rank, .root = 1};
    std::string in, out;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      if (has_input(operation, shape, chunk)) in += std::to_string(chunk);
      if (has_output(operation, shape, chunk)) out += std::to_string(chunk);
    }
    table += fmt::format("{}{}->{}", rank == 0 ? "" : ", ", in, out);
  }
  return table;
}

TEST(Contract, SaysWhichChunksARankBringsAndEndsWith) {
  EXPECT_EQ(table_of(Operation::all_reduce), "01->01, 01->01");
  EXPECT_EQ(table_of(Operation::reduce_scatter), "01->0, 01->1");
  EXPECT_EQ(table_of(Operation::all_gather), "0->01, 1->01");
  EXPECT_EQ(table_of(Operation::broadcast), "->01, 01->01");
  EXPECT_EQ(table_of(Operation::reduce), "01->, 01->01");
  EXPECT_EQ(table_of(Operation::gather), "0->, 1->01");
  EXPECT_EQ(table_of(Operation::scatter), "->0, 01->1");
  EXPECT_EQ(table_of(Operation::all_to_all), "01->02, 23->13");
  EXPECT_EQ(table_of(Operation::barrier), "0->01, 1->01");
}

TEST(Contract, TheSourceOfAChunkHasItInItsInput) {
  for (const Operation operation : kWithPrograms) {
    if (is_reduction(operation)) continue;
    Shape shape{.ranks = 5, .root = 3};
    for (int chunk = 0; chunk < std::max(1, chunks_needed(operation, 5)); ++chunk) {
      shape.rank = source_of(operation, shape, chunk);
      EXPECT_TRUE(has_input(operation, shape, chunk)) << name_of(operation) << " " << chunk;
    }
  }
}

TEST(Contract, OnlyWhatMovesChunksHasPrograms) {
  for (const Operation operation : kWithPrograms)
    EXPECT_TRUE(has_programs(operation)) << name_of(operation);
  for (const Operation operation : {Operation::send, Operation::recv, static_cast<Operation>(99)}) {
    EXPECT_FALSE(has_programs(operation)) << name_of(operation);
  }
}

TEST(Contract, ABarrierAloneIsNotCarriedByItsPrograms) {
  for (const Operation operation : kWithPrograms)
    EXPECT_EQ(is_carried_by_programs(operation), operation != Operation::barrier);
  EXPECT_FALSE(is_carried_by_programs(Operation::send));
}

}  // namespace
}  // namespace paceline::collective
