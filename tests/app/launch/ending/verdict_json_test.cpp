#include "paceline/app/launch/ending/verdict_json.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

namespace paceline::launch {
namespace {

TEST(VerdictJson, TellsWhoFailedFirstAndHowEachEnded) {
  const std::vector<RankRecord> records = {{.pid = 10, .wait_status = SIGTERM, .stopped = true},
                                           {.pid = 11,
                                            .wait_status = SIGKILL,
                                            .host = "b",
                                            .report = Failure{Fault::io, "a\nb\xff", {}}},
                                           {.pid = 12, .not_started = "no memory"},
                                           {.pid = 13, .wait_status = 0, .server = 0}};
  const auto verdict = nlohmann::json::parse(
      verdict_json({.kind = Outcome::Kind::failed, .exit_code = 137, .root = 1}, records,
                   {.job = "j", .generation = 2, .host = "a", .ranks = 3}));
  EXPECT_EQ(verdict["outcome"], "failed");
  EXPECT_EQ(verdict["generation"], 2);
  EXPECT_EQ(verdict["servers"], 1);
  const auto& first = verdict["first"];
  EXPECT_EQ(first["rank"], 1);
  EXPECT_EQ(first["host"], "b");
  EXPECT_EQ(first["signal"], SIGKILL);
  EXPECT_EQ(first["exit_code"], 137);
  EXPECT_EQ(first["told"], "a\nb\uFFFD") << "bytes that are no UTF-8 are replaced";
  const auto& processes = verdict["processes"];
  EXPECT_EQ(processes[0]["host"], "a");
  EXPECT_EQ(processes[0]["stopped"], true);
  EXPECT_EQ(processes[2]["how"], "could not be started: no memory");
  EXPECT_FALSE(processes[2].contains("exit_code"));
  EXPECT_EQ(processes[3]["server"], 0);
}

TEST(VerdictJson, ARunThatWentWellHasNoFirst) {
  const auto verdict = nlohmann::json::parse(
      verdict_json({}, {{.pid = 1, .wait_status = 0}}, {.job = "j", .host = "a"}));
  EXPECT_EQ(verdict["outcome"], "done");
  EXPECT_EQ(verdict["told"], "");
  EXPECT_FALSE(verdict.contains("first"));
}

}  // namespace
}  // namespace paceline::launch
