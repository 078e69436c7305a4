#include "paceline/core/observe/rank_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/base/result.h"
#include "tests/support/local_world.h"

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

using ::testing::HasSubstr;

TEST(GatherTraces, BringsEveryRanksOperationsAndWaitsToRankZeroOnOneClock) {
  test::run_ranks(3, [](Job& job) {
    job.trace().enable();
    const std::int64_t begin = TraceLog::now();
    std::vector<double> values(1000, 1.0);
    job.world().all_reduce(buffer_of(values)).wait();
    { const TraceScope scope(job.trace(), TraceLane::training, "forward"); }
    const auto traces = gather_traces(job.world(), job.trace());
    EXPECT_TRUE(job.trace().take().empty());
    if (job.rank() != 0) {
      EXPECT_TRUE(traces.empty());
      return;
    }
    ASSERT_EQ(traces.size(), 3U);
    const std::int64_t end = TraceLog::now();
    for (int rank = 0; rank < 3; ++rank) {
      const RankTrace& trace = traces[static_cast<std::size_t>(rank)];
      EXPECT_EQ(trace.rank, rank);
      EXPECT_LT(std::abs(trace.clock_ns), 1'000'000'000) << "one host has one clock";
      int operations = 0, forwards = 0;
      for (const TraceSpan& span : trace.spans) {
        EXPECT_LE(span.begin_ns, span.end_ns);
        EXPECT_GT(span.end_ns - trace.clock_ns, begin - 1'000'000'000);
        EXPECT_LT(span.end_ns - trace.clock_ns, end + 1'000'000'000);
        operations += span.lane == TraceLane::operations;
        forwards += span.lane == TraceLane::training && span.name == "forward";
        if (span.lane == TraceLane::operations) {
          EXPECT_THAT(span.name, HasSubstr("all_reduce f64[1000]"));
        }
      }
      EXPECT_EQ(operations, 1);
      EXPECT_EQ(forwards, 1);
    }
  });
}

// Rank 1 speaks for another host, whose clock is an hour ahead.
TEST(GatherTraces, ARanksClockIsComparedWithRankZerosWhateverItsTraceClaims) {
  constexpr std::int64_t kSecond = 1'000'000'000, kAhead = 3600 * kSecond;
  test::run_ranks(2, [](Job& job) {
    Communicator& world = job.world();
    if (job.rank() == 0) {
      const std::int64_t begin = TraceLog::now();
      const auto traces = gather_traces(world, job.trace());
      ASSERT_EQ(traces.size(), 2U);
      ASSERT_EQ(traces[1].spans.size(), 1U);
      EXPECT_LT(std::abs(traces[1].clock_ns - kAhead), 100 * kSecond);
      const std::int64_t when = traces[1].spans[0].begin_ns - traces[1].clock_ns;
      EXPECT_LT(std::abs(when - begin), 100 * kSecond) << "on rank 0's clock it is now";
      return;
    }
    std::vector<std::int64_t> word(1);
    for (int exchange = 0; exchange < 8; ++exchange) {
      world.recv(buffer_of(word), 0).wait();
      word[0] = TraceLog::now() + kAhead;
      world.send(const_buffer_of(word), 0).wait();
    }
    const std::int64_t now = TraceLog::now() + kAhead;
    const std::string trace =
        encode({1, "elsewhere", -5, {{TraceLane::training, "step", now, now + 1}}, 0});
    word[0] = static_cast<std::int64_t>(trace.size());
    world.send(const_buffer_of(word), 0).wait();
    world
        .send(
            ConstBuffer{reinterpret_cast<const std::byte*>(trace.data()), trace.size(), Dtype::u8},
            0)
        .wait();
  });
}

TEST(GatherTraces, AWorldOfOneHasItsOwn) {
  test::run_ranks(1, [](Job& job) {
    job.trace().enable();
    { const TraceScope scope(job.trace(), TraceLane::training, "forward"); }
    const auto traces = gather_traces(job.world(), job.trace());
    ASSERT_EQ(traces.size(), 1U);
    EXPECT_EQ(traces[0].spans.size(), 1U);
  });
}

TEST(GatherTraces, NoMemoryIsTakenOnAPeersWordAlone) {
  for (const std::int64_t claimed : {std::int64_t{-1}, std::int64_t{1} << 60}) {
    test::run_ranks(2, [claimed](Job& job) {
      Communicator& world = job.world();
      if (job.rank() == 0) {
        try {
          gather_traces(world, job.trace());
          ADD_FAILURE() << "a trace of " << claimed << " bytes was taken";
        } catch (const Error& error) {
          EXPECT_EQ(error.fault(), Fault::io);
          EXPECT_EQ(error.failure().ranks, std::vector{1});
          EXPECT_THAT(error.what(), HasSubstr("rank 1 offers a trace of"));
        }
        return;
      }
      std::vector<std::int64_t> word(1);
      for (int exchange = 0; exchange < 8; ++exchange) {  // of clocks
        world.recv(buffer_of(word), 0).wait();
        world.send(const_buffer_of(word), 0).wait();
      }
      word[0] = claimed;
      world.send(const_buffer_of(word), 0).wait();
    });
  }
}

}  // namespace

}  // namespace paceline::observe
