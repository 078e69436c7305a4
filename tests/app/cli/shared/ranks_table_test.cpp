#include "paceline/app/cli/shared/ranks_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include <nlohmann/json.hpp>

namespace paceline::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kSecond = 1'000'000'000;

observe::HostRank rank(int number, std::int64_t step, std::int64_t waiting_since_ns = 0) {
  observe::HostRank r{.pid = 100 + number,
                      .status = {},
                      .cpu_seconds = static_cast<double>(step) / 10,
                      .memory_bytes = 1 << 20};
  r.status.rank = number;
  r.status.world_size = 3;
  r.status.step = step;
  r.status.samples = static_cast<double>(step) * 64;
  r.status.operations = step * 2;
  r.status.waiting_since_ns = waiting_since_ns;
  r.status.job = {'j'};
  r.status.waits_for = {'s', 'u', 'm'};
  return r;
}

TEST(RanksTable, RatesAreDifferencesOverTheTimeBetweenTwoLooks) {
  const Look before{{rank(0, 10)}, 4 * kSecond}, now{{rank(0, 30), rank(1, 50)}, 6 * kSecond};
  const auto rate = rates(before, now);
  ASSERT_EQ(rate.size(), 2U);
  EXPECT_DOUBLE_EQ(rate[0].steps, 10);
  EXPECT_DOUBLE_EQ(rate[0].samples, 640);
  EXPECT_DOUBLE_EQ(rate[0].operations, 20);
  EXPECT_DOUBLE_EQ(rate[0].cpu, 1);
  EXPECT_EQ(rate[1].steps, 0) << "was not there before";
}

TEST(RanksTable, AWaitThatHasNotEndedCountsUpToNow) {
  const Look before{{rank(0, 1)}, 4 * kSecond}, now{{rank(0, 1, 5 * kSecond)}, 6 * kSecond};
  EXPECT_DOUBLE_EQ(rates(before, now)[0].waiting, 0.5);
  EXPECT_EQ(state_of(now.ranks[0], now.at_ns, {}), "waits 1.0 s for sum");
}

TEST(RanksTable, ARankThatASignalStopsIsStopped) {
  auto one = rank(0, 1);
  one.stopped = true;
  EXPECT_EQ(state_of(one, kSecond, {}), "stopped (kill -CONT goes on): computes");
}

TEST(RanksTable, ARankThatHasADeviceIsShownWithIt) {
  auto one = rank(0, 1);
  one.status.device = {'c', 'u', 'd', 'a', ':', '1'};
  EXPECT_EQ(state_of(one, kSecond, {}), "cuda:1: computes");
  const Look look{{one, rank(1, 1)}, kSecond};
  const auto json = nlohmann::json::parse(ranks_json(look, look));
  EXPECT_EQ(json["ranks"][0]["device"], "cuda:1");
  EXPECT_FALSE(json["ranks"][1].contains("device"));
}

TEST(RanksTable, MarksTheRankThatAllOthersWaitFor) {
  const Look look{{rank(0, 1, 1), rank(1, 1), rank(2, 1, 1)}, kSecond};
  std::istringstream lines(ranks_table(look, look, 200));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_EQ(line.starts_with('*'), line.find("  101 ") != std::string::npos) << line;
  }
  const Look two_busy{{rank(0, 1, 1), rank(1, 1), rank(2, 1)}, kSecond};
  EXPECT_THAT(ranks_table(two_busy, two_busy, 200), Not(HasSubstr("*")));
}

TEST(RanksTable, NoLineIsWiderThanTheTerminalAndNothingOfAProcessReachesItRaw) {
  Look look{{rank(0, 1, 1)}, kSecond};
  look.ranks[0].status.waits_for = {'\033', '[', '2', 'J'};
  std::istringstream lines(ranks_table(look, look, 40));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 40U);
  EXPECT_THAT(ranks_table(look, look, 200), Not(HasSubstr("\033")));
}

TEST(RanksTable, AStageOfAPipelineTellsHowMuchItIdledBetweenTwoLooks) {
  observe::HostRank stage = rank(0, 1), plain = rank(1, 1);
  stage.status.stages = {.numbers = {'0', ',', '2'}, .idle_ns = 8 * kSecond, .compute_ns = kSecond};
  const Look before{{stage, plain}, 10 * kSecond};
  stage.status.stages.idle_ns += kSecond;
  stage.status.stages.compute_ns += 3 * kSecond;
  const Look now{{stage, plain}, 14 * kSecond};
  const std::string table = ranks_table(before, now, 200);
  EXPECT_THAT(table, HasSubstr("  stage 0,2, bubble 25 %: computes\n"));
  EXPECT_THAT(table, HasSubstr("%  computes\n")) << "rank 1 has no stage";
  const auto ranks = nlohmann::json::parse(ranks_json(before, now)).at("ranks");
  EXPECT_EQ(ranks[0].at("stages"), "0,2");
  EXPECT_DOUBLE_EQ(ranks[0].at("bubble"), 0.25);
  EXPECT_FALSE(ranks[1].contains("bubble"));
  EXPECT_DOUBLE_EQ(rates(now, now)[0].bubble, 9.0 / 13) << "no step ended: of all time";
}

TEST(RanksTable, ServersStandAfterTheRanksWithWhatTheyServe) {
  observe::HostRank server = rank(0, 0);
  server.status.rank = -1;
  server.status.server = 0;
  Look before{{rank(0, 1, 1), rank(1, 1), server}, kSecond};
  server.status.serves = {.ranges = 4, .lowest_clock = 7, .highest_clock = 9, .pushes = 80};
  const Look now{{rank(0, 1, 1), rank(1, 1), server}, 3 * kSecond};
  const std::string table = ranks_table(before, now, 200);
  EXPECT_THAT(table, HasSubstr("2 of 3 ranks and 1 server on this host"));
  EXPECT_THAT(table, HasSubstr("serves 4 ranges at clocks 7 to 9, 40 pushes a second"));
  EXPECT_THAT(table, Not(HasSubstr("chain")));
  EXPECT_THAT(table, HasSubstr("    s0 "));
  EXPECT_THAT(table, HasSubstr("\n*    1 ")) << "rank 0 waits for rank 1, the server for nobody";
  const auto json = nlohmann::json::parse(ranks_json(before, now));
  EXPECT_EQ(json.at("ranks").size(), 2U);
  EXPECT_EQ(json.at("servers")[0].at("pushes_per_second"), 40);
}

TEST(RanksTable, ServersOfSparseTablesSayHowManyRowsTheyStore) {
  observe::HostRank server = rank(0, 0);
  server.status.server = 0;
  server.status.serves = {.ranges = 1, .lowest_clock = 7, .highest_clock = 9, .rows = 1234};
  const Look look{{rank(0, 1, 1), server}, kSecond};
  EXPECT_THAT(ranks_table(look, look, 200), HasSubstr("clocks 7 to 9, 1234 rows, "));
  EXPECT_EQ(nlohmann::json::parse(ranks_json(look, look)).at("servers")[0].at("rows"), 1234);
}

TEST(RanksTable, ServersOfChainsSayTheirPlacesInThem) {
  observe::HostRank server = rank(0, 0);
  server.status.server = 3;
  std::ranges::copy(std::string_view("0 (2 of 2, not ready)"), server.status.serves.chains.begin());
  const Look look{{rank(0, 1, 1), server}, kSecond};
  EXPECT_THAT(ranks_table(look, look, 200), HasSubstr("a second, chain 0 (2 of 2, not ready)"));
  const auto json = nlohmann::json::parse(ranks_json(look, look));
  EXPECT_EQ(json.at("servers")[0].at("chains"), "0 (2 of 2, not ready)");
}

TEST(RanksTable, WhileOthersWaitForTheStartThoseWithoutInitAreNamed) {
  auto waits = rank(1, 0, 1);
  std::ranges::copy(std::string_view("all ranks to join"), waits.status.waits_for.begin());
  const Look starting{{waits}, kSecond};
  EXPECT_THAT(ranks_table(starting, starting, 200),
              HasSubstr("ranks 0, 2 have not called paceline::init() on this host"));
  const auto json = nlohmann::json::parse(ranks_json(starting, starting));
  EXPECT_EQ(json.at("starting"),
            nlohmann::json::parse(R"([{"job": "j", "without_init": [0, 2]}])"));
  const Look begun{{rank(1, 1, 1)}, kSecond};
  EXPECT_THAT(ranks_table(begun, begun, 200), Not(HasSubstr("init()"))) << "they run elsewhere";
  EXPECT_FALSE(nlohmann::json::parse(ranks_json(begun, begun)).contains("starting"));
}

TEST(RanksTable, JsonHasALineWithEveryRank) {
  const Look look{{rank(0, 1), rank(1, 5)}, kSecond};
  const std::string text = ranks_json(look, look);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  const auto json = nlohmann::json::parse(text);
  ASSERT_EQ(json.at("ranks").size(), 2U);
  EXPECT_EQ(json.at("ranks")[1].at("step"), 5);
}

}  // namespace
}  // namespace paceline::cli
