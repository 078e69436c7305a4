#include "paceline/app/cli/programs/drawing.h"

#include <gmock/gmock.h>

#include <string_view>

#include "paceline/core/collective/proof/counters.h"
#include "tests/core/collective/programs.h"

namespace paceline::cli {
namespace {

using namespace collective;
using namespace collective::testing;
using ::testing::HasSubstr;
using ::testing::Not;

std::string drawn(const std::vector<Program>& programs) {
  auto meeting = meet(programs);
  EXPECT_TRUE(meeting.has_value()) << meeting.error().what;
  return meeting ? draw(programs, *meeting, {"a <title>", "a subtitle", "the command"}) : "";
}

long occurrences(std::string_view text, std::string_view part) {
  long count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

constexpr std::string_view kMessage = "<g class=\"message\"";

// Well formed XML is what tests/house reads the stored pictures as.
TEST(Drawing, HasOneArrowForEachMessageAndAColumnForEachRank) {
  for (const Algorithm& algorithm : built_in_algorithms()) {
    for (const int ranks : {1, 2, 3, 8, 13}) {
      if (!algorithm.fits({.ranks = ranks})) continue;
      const auto programs = programs_of(algorithm, ranks);
      auto meeting = meet(programs);
      const std::string svg = drawn(programs);
      EXPECT_EQ(occurrences(svg, kMessage), count(programs, *meeting).messages) << algorithm.name;
      EXPECT_EQ(occurrences(svg, "class=\"life\""), ranks) << algorithm.name;
    }
  }
}

TEST(Drawing, IsTheSameTextEachTime) {
  const auto programs = programs_of(built_in(Operation::all_reduce, "direct"), 9);
  EXPECT_EQ(drawn(programs), drawn(programs));
}

TEST(Drawing, LabelsArrowsWithTheirChunksUntilThereAreTooMany) {
  const Algorithm direct = built_in(Operation::all_gather, "direct");
  const std::string few = drawn(programs_of(direct, 8));
  EXPECT_EQ(occurrences(few, "class=\"label\""), 8 * 7 + 8);  // a copy on each rank
  const std::string many = drawn(programs_of(direct, 64));
  EXPECT_EQ(occurrences(many, "class=\"label\""), 0);
  EXPECT_EQ(occurrences(many, kMessage), 64 * 63);
  EXPECT_THAT(many, HasSubstr("<title>round 0: rank 5 stores to rank 9: chunk 5</title>"));
}

TEST(Drawing, ExplainsWhatOccursAndNothingElse) {
  const std::string ring = drawn(programs_of(built_in(Operation::all_reduce, "ring"), 4));
  EXPECT_THAT(ring, HasSubstr(">adds the last part<"));
  EXPECT_THAT(ring, Not(HasSubstr(">stores it into the output<")));
  EXPECT_THAT(ring, Not(HasSubstr(">copies<")));
  const std::string gather = drawn(programs_of(built_in(Operation::all_gather, "direct"), 4));
  EXPECT_THAT(gather, Not(HasSubstr(">adds the last part<")));
  EXPECT_THAT(gather, HasSubstr(">stores it into the output<"));
  EXPECT_THAT(gather, HasSubstr(">copies<"));
}

TEST(Drawing, EscapesItsCaption) {
  const std::string svg = drawn(programs_of(built_in(Operation::all_reduce, "ring"), 2));
  EXPECT_THAT(svg, HasSubstr("<title>a &lt;title&gt;</title>"));
  EXPECT_THAT(svg, HasSubstr("<metadata>the command</metadata>"));
}

TEST(Drawing, OfOneRankHasNoArrowAndNoFault) {
  for (const Algorithm& algorithm : built_in_algorithms())
    EXPECT_EQ(occurrences(drawn(programs_of(algorithm, 1)), kMessage), 0) << algorithm.name;
}

}  // namespace
}  // namespace paceline::cli
