#include "paceline/core/plan/stage_partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/base/seed.h"
#include "tests/support/seed.h"

namespace paceline::plan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(StagePartition, OfItsTextIsTheSamePartition) {
  SeededNumbers numbers(test::seed(31));
  for (int round = 0; round < 300; ++round) {
    StagePartition partition;
    int layers = 0;
    const int stages = 1 + static_cast<int>(numbers.below(6));
    for (int stage = 0; stage < stages; ++stage) {
      const int length = 1 + static_cast<int>(numbers.below(4));
      const int replicas = 1 + static_cast<int>(numbers.below(3));
      partition.stages.push_back({layers, layers + length - 1, replicas});
      layers += length;
    }
    const auto read = StagePartition::parse(partition.text(), layers);
    ASSERT_TRUE(read.has_value()) << partition.text() << ": " << read.error().what;
    EXPECT_EQ(read.value(), partition);
  }
}

TEST(StagePartition, TextIsThatOfTheGrammar) {
  const StagePartition partition{{{0, 3, 2}, {4, 4, 1}}};
  EXPECT_EQ(partition.text(), "0-3x2,4x1");
  EXPECT_EQ(partition.ranks(), 3);
  EXPECT_FALSE(partition.is_straight());
  EXPECT_EQ(StagePartition::parse("0-3x2,4", 5).value(), partition) << "x1 may be left out";
  EXPECT_EQ((StagePartition{{{0, 3, 1}, {4, 4, 1}}}).text(), "0-3,4");
  EXPECT_EQ(StagePartition::parse("0-0x1,1-4", 5).value().text(), "0,1-4");
}

TEST(StagePartition, WrongTextsAreQuotedAndToldWhatIsRight) {
  const auto refusal = [](const char* text, int layers) {
    const auto partition = StagePartition::parse(text, layers);
    if (partition) return std::string("accepted");
    EXPECT_THAT(partition.error().what, HasSubstr(std::string("\"") + text + "\""));
    return partition.error().what;
  };
  EXPECT_THAT(refusal("0-3,3-4", 5), AllOf(HasSubstr("at '3-4'"), HasSubstr("layer 3 would stand"),
                                           HasSubstr("begin with layer 4")));
  EXPECT_THAT(refusal("0-3,1-2,4", 5), HasSubstr("layers 1 to 2 would stand on two stages"));
  EXPECT_THAT(refusal("0-1,4", 5),
              AllOf(HasSubstr("layers 2 to 3 would stand on no stage"), HasSubstr("begin with 2")));
  EXPECT_THAT(refusal("1-4", 5), HasSubstr("layer 0 would stand on no stage"));
  EXPECT_THAT(refusal("0-3", 5),
              AllOf(HasSubstr("layer 4 would stand on no stage"), HasSubstr("end with layer 4")));
  EXPECT_THAT(refusal("0-5", 5), AllOf(HasSubstr("no layer 5"), HasSubstr("layers 0 to 4")));
  EXPECT_THAT(refusal("0,1,2,3", 3),
              AllOf(HasSubstr("4 stages for 3 layers"), HasSubstr("at most 3 stages")));
  EXPECT_THAT(refusal("3-0,4", 5), AllOf(HasSubstr("ends before"), HasSubstr("write 0-3")));
  for (const char* text : {"", "0-3,", "0-3x", "0-3x0,4", "0-3x-1,4", "a-3", "0--3", "-1-3", "0- 3",
                           "0-3x2x2,4", "0-99999999999", "0-3;4", "+0-4", "x2"})
    EXPECT_THAT(refusal(text, 5), AllOf(HasSubstr("is no stage"), HasSubstr("0-3x2,4x1"))) << text;
}

TEST(EvenCut, LengthsDifferByOneAtMostTheLongerFirst) {
  for (int layers = 1; layers <= 20; ++layers) {
    for (int stages = 1; stages <= layers; ++stages) {
      const StagePartition cut = even_cut(layers, stages).value();
      ASSERT_EQ(cut.size(), stages);
      ASSERT_EQ(StagePartition::parse(cut.text(), layers).value(), cut) << "it tiles the layers";
      for (int i = 1; i < stages; ++i)
        ASSERT_LE(cut.stages[static_cast<std::size_t>(i)].layers(),
                  cut.stages[static_cast<std::size_t>(i - 1)].layers());
      ASSERT_LE(cut.stages.front().layers() - cut.stages.back().layers(), 1);
    }
  }
}

TEST(EvenCut, OfMoreStagesThanLayersIsRefused) {
  EXPECT_THAT(even_cut(3, 4).error().what,
              AllOf(HasSubstr("4 stages for 3 layers"), HasSubstr("at most 3")));
  EXPECT_THAT(even_cut(3, 0).error().what, HasSubstr("1 or more"));
}

}  // namespace
}  // namespace paceline::plan
