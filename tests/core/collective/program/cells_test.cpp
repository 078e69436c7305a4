#include "paceline/core/collective/program/cells.h"

#include <gtest/gtest.h>

#include <set>

namespace paceline::collective {
namespace {

const Program kProgram{.chunks = 3, .scratch_places = 2};

std::vector<Slot> reads_of(const Step& step) {
  const Reads reads(step);
  return {reads.begin(), reads.end()};
}

TEST(Cells, AreAllDifferentOutOfPlace) {
  const Cells cells(kProgram, false);
  const std::set<std::size_t> different{cells.of(input(0)),      cells.of(input(2)),
                                        cells.of(output(0)),     cells.of(output(2)),
                                        cells.of(scratch(0, 0)), cells.of(scratch(1, 0))};
  EXPECT_EQ(different.size(), 6u);
  EXPECT_LT(*different.rbegin(), cells.count());
}

TEST(Cells, InputAndOutputShareMemoryInPlace) {
  const Cells cells(kProgram, true);
  EXPECT_EQ(cells.of(input(2)), cells.of(output(2)));
  EXPECT_NE(cells.of(input(1)), cells.of(output(2)));
  EXPECT_LT(cells.of(scratch(1, 0)), cells.count());
}

TEST(Cells, AScratchPlaceIsOneCellWhicheverChunkLiesInIt) {
  const Cells cells(kProgram, false);
  EXPECT_EQ(cells.of(scratch(1, 0)), cells.of(scratch(1, 2)));
  EXPECT_NE(cells.of(scratch(0, 0)), cells.of(scratch(1, 0)));
}

TEST(Cells, KnowWhatEachKindOfStepTouches) {
  EXPECT_EQ(reads_of(send(1, input(0))), std::vector{input(0)});
  EXPECT_EQ(reads_of(store(1, output(1), output(0))), std::vector{output(1)});
  EXPECT_EQ(reads_of(recv(1, output(0))), std::vector<Slot>{});
  EXPECT_EQ(reads_of(recv_reduce(1, input(0), output(0), true)), std::vector{input(0)});
  EXPECT_EQ(reads_of(copy(input(0), output(0))), std::vector{input(0)});
  EXPECT_EQ(reads_of(reduce(input(0), scratch(0, 0), output(0))),
            (std::vector{input(0), scratch(0, 0)}));

  EXPECT_EQ(written_slot(send(1, input(0))), std::nullopt);
  EXPECT_EQ(written_slot(store(1, output(1), output(0))), std::nullopt)
      << "the peer's slot, not ours";
  EXPECT_EQ(written_slot(recv(1, output(2))), output(2));
  EXPECT_EQ(written_slot(reduce(input(0), scratch(0, 0), output(0))), output(0));
}

TEST(Cells, ACopyOntoItselfIsIdleUnlessItCompletes) {
  const Step step = copy(input(0), output(0));
  EXPECT_TRUE(Cells(kProgram, true).is_idle(step));
  EXPECT_FALSE(Cells(kProgram, false).is_idle(step));
  EXPECT_FALSE(Cells(kProgram, true).is_idle(completing(step)));
}

}  // namespace
}  // namespace paceline::collective
