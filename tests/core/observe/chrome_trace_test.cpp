#include "paceline/core/observe/chrome_trace.h"

#include <gtest/gtest.h>

#include <map>

#include <nlohmann/json.hpp>

namespace paceline::observe {
namespace {

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

}  // namespace
}  // namespace paceline::observe
