#include "paceline/core/observe/trace_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace paceline::observe {
namespace {

// Readers of other projects read the files' content in tests/readers.
TEST(TraceFile, TheNameChoosesTheFormat) {
  const std::vector<RankTrace> ranks = {
      {0, "a", 0, {{TraceLane::training, "step", 1000, 9000}}, 0}};
  for (const std::string name : {"t.json", "t.pftrace", "t"}) {
    const std::string path = testing::TempDir() + "paceline_" + name;
    write_trace(path, ranks);
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    EXPECT_EQ(text.str(), name == "t.pftrace" ? perfetto_trace(ranks) : chrome_trace(ranks));
    std::filesystem::remove(path);
  }
}

TEST(TraceFile, ThePerfettoFormIsSmallerAndDoesNotDependOnWhenItBegan) {
  std::vector<RankTrace> ranks = {{0, "a", 0, {}, 0}};
  for (int i = 0; i < 100; ++i)
    ranks[0].spans.push_back({TraceLane::training, "forward", i * 1000, i * 1000 + 700});
  EXPECT_LT(perfetto_trace(ranks).size(), chrome_trace(ranks).size());
  auto later = ranks;
  for (TraceSpan& span : later[0].spans)
    span.begin_ns += 1'000'000'007, span.end_ns += 1'000'000'007;
  EXPECT_EQ(perfetto_trace(ranks), perfetto_trace(later));
  EXPECT_EQ(chrome_trace(ranks), chrome_trace(later));
}

// Rank 1's clock is 1 s ahead: the same moments for both.
std::vector<RankTrace> two_ranks() {
  constexpr std::int64_t kAhead = 1'000'000'000;
  return {{0,
           "a",
           0,
           {{TraceLane::training, "step", 1000, 9000},
            {TraceLane::operations, "all_reduce \"x\"", 2000, 8000},
            {TraceLane::operations, "broadcast", 3000, 4000}},
           0},
          {1, "b", kAhead, {{TraceLane::waiting, "all_reduce", kAhead + 2500, kAhead + 2750}}, 7}};
}

TEST(ChromeTrace, HasEverySpanOnceAtItsTimeOnTheCommonClock) {
  const auto json = nlohmann::json::parse(chrome_trace(two_ranks()));
  std::map<std::string, std::pair<double, double>> found;  // name -> begin, end
  for (const auto& event : json.at("traceEvents")) {
    const std::string phase = event.at("ph"), name = event.at("name");
    const std::string key =
        phase == "M" ? "" : std::to_string(event.at("pid").get<int>()) + " " + name;
    if (phase == "X") {
      EXPECT_TRUE(
          found
              .emplace(key, std::pair(event.at("ts").get<double>(),
                                      event.at("ts").get<double>() + event.at("dur").get<double>()))
              .second);
    } else if (phase == "b") {
      EXPECT_TRUE(found.emplace(key, std::pair(event.at("ts").get<double>(), -1.0)).second);
    } else if (phase == "e") {
      found.at(key).second = event.at("ts").get<double>();
    }
  }
  const std::map<std::string, std::pair<double, double>> wanted = {
      {"0 step", {0.0, 8.0}},
      {"0 all_reduce \"x\"", {1.0, 7.0}},
      {"0 broadcast", {2.0, 3.0}},
      {"1 all_reduce", {1.5, 1.75}}};
  EXPECT_EQ(found, wanted);
}

TEST(ChromeTrace, OverlappingOperationsHaveIdentitiesOfTheirOwn) {
  const auto json = nlohmann::json::parse(chrome_trace(two_ranks()));
  std::map<std::uint64_t, std::string> open;
  int closed = 0;
  for (const auto& event : json.at("traceEvents")) {
    if (event.at("ph") == "b") {
      EXPECT_TRUE(open.emplace(event.at("id"), event.at("name")).second);
    }
    if (event.at("ph") == "e") {
      EXPECT_EQ(open.at(event.at("id")), event.at("name"));
      ++closed;
    }
  }
  EXPECT_EQ(closed, 2);
}

TEST(ChromeTrace, NamesRanksHostsAndWhatWasDropped) {
  const std::string text = chrome_trace(two_ranks());
  EXPECT_NE(text.find("rank 0 (a)"), std::string::npos);
  EXPECT_NE(text.find("rank 1 (b, 7 spans dropped)"), std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(chrome_trace({})).at("traceEvents").empty());
}

// Two ranks, where rank 1's clock is ahead of rank 0's by so much.
std::string drawn(std::int64_t ahead) {
  return perfetto_trace(std::vector<RankTrace>{
      {0, "a", 0, {{TraceLane::training, "step", 1000, 9000}}, 0},
      {1, "b", ahead, {{TraceLane::waiting, "all_reduce", ahead + 500, ahead + 2750}}, 0}});
}

TEST(PerfettoTrace, IsTheSameWhateverARanksClockSays) {
  const std::string one_clock = drawn(0);
  EXPECT_NE(one_clock.find("all_reduce"), std::string::npos);
  for (const std::int64_t ahead : {std::int64_t{1'000'000'000}, std::int64_t{-77}})
    EXPECT_EQ(drawn(ahead), one_clock) << ahead;
}

}  // namespace

}  // namespace paceline::observe
