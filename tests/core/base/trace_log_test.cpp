#include "paceline/core/base/trace_log.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace paceline {
namespace {

TEST(TraceLog, KeepsNothingUntilItIsEnabled) {
  TraceLog log;
  { const TraceScope scope(log, TraceLane::training, "forward"); }
  log.record({TraceLane::waiting, "all_reduce", 1, 2});
  EXPECT_TRUE(log.take().empty());
  log.enable();
  { const TraceScope scope(log, TraceLane::training, "forward"); }
  log.record({TraceLane::waiting, "all_reduce", 1, 2});
  const auto spans = log.take();
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].name, "forward");
  EXPECT_GE(spans[0].end_ns, spans[0].begin_ns);
  EXPECT_EQ(spans[1], (TraceSpan{TraceLane::waiting, "all_reduce", 1, 2}));
  EXPECT_TRUE(log.take().empty());
}

TEST(TraceLog, ScopesThatNestEndInsideOut) {
  TraceLog log;
  log.enable();
  {
    const TraceScope step(log, TraceLane::training, "step");
    const TraceScope forward(log, TraceLane::training, "forward");
  }
  const auto spans = log.take();
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].name, "forward");
  EXPECT_LE(spans[1].begin_ns, spans[0].begin_ns);
  EXPECT_GE(spans[1].end_ns, spans[0].end_ns);
}

TEST(TraceLog, CountsWhatItDropsWhenItIsFullAndLosesNothingOfManyThreads) {
  TraceLog log;
  log.enable();
  constexpr std::size_t kThreads = 4, kEach = TraceLog::kMostSpans / kThreads + 10;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < kEach; ++i) log.record({TraceLane::operations, "", 1, 2});
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(log.take().size(), TraceLog::kMostSpans);
  EXPECT_EQ(log.dropped(), kThreads * kEach - TraceLog::kMostSpans);
}

}  // namespace
}  // namespace paceline
