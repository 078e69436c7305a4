#include "paceline/core/observe/rank_trace.h"

#include <gtest/gtest.h>

#include "paceline/core/base/result.h"

namespace paceline::observe {
namespace {

TEST(RankTrace, ComesBackAsItWas) {
  const RankTrace trace{3,
                        "höst",
                        -5,
                        {{TraceLane::operations, "all_reduce", 1, 9'000'000'000'000'000},
                         {TraceLane::training, "", -1, 2}},
                        4};
  const RankTrace back = decode_rank_trace(encode(trace));
  EXPECT_EQ(back.rank, trace.rank);
  EXPECT_EQ(back.host, trace.host);
  EXPECT_EQ(back.clock_ns, trace.clock_ns);
  EXPECT_EQ(back.spans, trace.spans);
  EXPECT_EQ(back.dropped, trace.dropped);
}

TEST(RankTrace, BytesOfAnotherMakeAreRefused) {
  const std::string good = encode({0, "a", 0, {{TraceLane::training, "x", 1, 2}}, 0});
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_THROW(decode_rank_trace(good.substr(0, length)), Error) << length;
  }
  std::string unknown_lane = good;
  unknown_lane.replace(unknown_lane.find("[[0"), 3, "[[9");
  EXPECT_THROW(decode_rank_trace(unknown_lane), Error);
  EXPECT_THROW(decode_rank_trace("[]"), Error);
  EXPECT_THROW(decode_rank_trace(R"({"rank":"x","host":"a","clock_ns":0,"dropped":0,"spans":[]})"),
               Error);
}

}  // namespace
}  // namespace paceline::observe
