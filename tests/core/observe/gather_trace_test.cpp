#include "paceline/core/observe/gather_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/local_world.h"

namespace paceline::observe {
namespace {

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
