#include "paceline/core/membership/environment/node_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::membership {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(NodeList, IsWrittenOut) {
  EXPECT_THAT(parse_node_list("login").value(), ElementsAre("login"));
  EXPECT_THAT(parse_node_list("n[01-03,7],login").value(),
              ElementsAre("n01", "n02", "n03", "n7", "login"));
  EXPECT_THAT(parse_node_list("n[9-11]").value(), ElementsAre("n9", "n10", "n11"));
  EXPECT_THAT(parse_node_list("r[1-2]n[1-2].cluster").value(),
              ElementsAre("r1n1.cluster", "r1n2.cluster", "r2n1.cluster", "r2n2.cluster"));
  EXPECT_EQ(parse_node_list("n[0001-4096]").value().back(), "n4096");
}

TEST(NodeList, WrongOnesShowThePartThatIsWrong) {
  struct Wrong {
    const char* list;
    const char* says;
  };
  for (const auto& [list, says] : std::vector<Wrong>{{"", "a name is missing"},
                                                     {"a,,b", "a name is missing"},
                                                     {"a,", "a name is missing"},
                                                     {"n[1,]", "a number is missing"},
                                                     {"n[1-2", "not closed"},
                                                     {"n1-2]", "not opened"},
                                                     {"n[2-1]", "goes down"},
                                                     {"n[a-b]", "a-b"},
                                                     {"n[]", "numbers and ranges"},
                                                     {"n[1-]", "1-"},
                                                     {"n[1-999999]", "more than 65536"},
                                                     {"n[1,]x]", "not closed, or not opened"}}) {
    const auto parsed = parse_node_list(list);
    ASSERT_FALSE(parsed) << list;
    EXPECT_EQ(parsed.error().fault, Fault::misuse);
    EXPECT_THAT(parsed.error().what, HasSubstr(says)) << list;
  }
}

TEST(TasksPerNode, AreWrittenOut) {
  EXPECT_THAT(parse_tasks_per_node("2(x3),1").value(), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(parse_tasks_per_node("4").value(), ElementsAre(4));
  for (const char* wrong : {"", "x", "2(x", "2(3)", "2(x99999999)", "-1"})
    EXPECT_FALSE(parse_tasks_per_node(wrong)) << wrong;
}

}  // namespace
}  // namespace paceline::membership
