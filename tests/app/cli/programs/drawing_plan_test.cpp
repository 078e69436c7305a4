#include "paceline/app/cli/programs/drawing_plan.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "paceline/core/collective/proof/counters.h"
#include "tests/core/collective/programs.h"

namespace paceline::cli {
namespace {

using namespace collective;
using namespace collective::testing;

struct Planned {
  Counters counters;
  std::vector<long> sent;
  DrawingPlan plan;
};

Planned planned(const std::vector<Program>& programs) {
  auto meeting = meet(programs);
  EXPECT_TRUE(meeting.has_value()) << meeting.error().what;
  if (!meeting) return {};
  return {count(programs, *meeting), sent_chunks(programs), plan_drawing(programs, *meeting)};
}

// Every algorithm for 1..9 ranks and 16.
template <typename Claim>
void for_all(Claim claim) {
  for (const Algorithm& algorithm : built_in_algorithms()) {
    for (const int ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16}) {
      if (!algorithm.fits({.ranks = ranks})) continue;
      SCOPED_TRACE(std::string(name_of(algorithm.operation)) + " " + std::string(algorithm.name) +
                   ", " + std::to_string(ranks) + " ranks");
      claim(planned(programs_of(algorithm, ranks)));
    }
  }
}

TEST(DrawingPlan, HasAnArrowForEachMessageAndEveryChunkOnOne) {
  for_all([](const Planned& planned) {
    EXPECT_EQ(std::ssize(planned.plan.arrows), planned.counters.messages);
    std::vector<long> sent(planned.sent.size());
    for (const Arrow& arrow : planned.plan.arrows)
      sent[static_cast<std::size_t>(arrow.from)] += std::ssize(arrow.chunks);
    EXPECT_EQ(sent, planned.sent);
  });
}

TEST(DrawingPlan, NoRankSendsOrReceivesTwiceInOneLane) {
  for_all([](const Planned& planned) {
    std::set<std::tuple<int, int, int>> sends, receives;
    for (const Arrow& arrow : planned.plan.arrows) {
      EXPECT_TRUE(sends.emplace(arrow.time, arrow.lane, arrow.from).second);
      EXPECT_TRUE(receives.emplace(arrow.time, arrow.lane, arrow.to).second);
      EXPECT_LT(arrow.lane, planned.plan.lanes.at(static_cast<std::size_t>(arrow.time)));
    }
  });
}

TEST(DrawingPlan, ReceiversOfOneChunkFromEachOtherTakeAsManyLanesAsTheyHavePeers) {
  for (const int ranks : {2, 3, 5, 8, 13}) {
    const auto exchange = planned(programs_of(built_in(Operation::all_gather, "direct"), ranks));
    EXPECT_EQ(exchange.plan.lanes, (std::vector<int>{ranks - 1})) << ranks;
    const auto to_one = planned(programs_of(built_in(Operation::gather, "linear"), ranks));
    EXPECT_EQ(to_one.plan.lanes, (std::vector<int>{ranks - 1})) << ranks;
  }
}

TEST(DrawingPlan, SumsStandWhereTheyAreMade) {
  const auto ring = planned(programs_of(built_in(Operation::all_reduce, "ring"), 4)).plan;
  EXPECT_TRUE(ring.marks.empty());
  EXPECT_EQ(std::ranges::count_if(ring.arrows, &Arrow::reduces), 12);
  EXPECT_EQ(std::ranges::count_if(ring.arrows, &Arrow::completes), 4);

  const auto direct = planned(programs_of(built_in(Operation::all_reduce, "direct"), 4)).plan;
  EXPECT_EQ(std::ranges::count_if(direct.marks, &Mark::reduces), 8);  // two levels on each rank
  EXPECT_EQ(std::ranges::count_if(direct.marks, &Mark::completes), 4);
  EXPECT_EQ(std::ranges::count_if(direct.arrows, &Arrow::stores), 12);
}

TEST(ChunkList, NamesRunsByTheirEnds) {
  EXPECT_EQ(chunk_list({}), "");
  EXPECT_EQ(chunk_list({5}), "5");
  EXPECT_EQ(chunk_list({4, 5}), "4,5");
  EXPECT_EQ(chunk_list({7, 2, 0, 1, 3, 1}), "0-3,7");
}

}  // namespace
}  // namespace paceline::cli
