#include "paceline/app/launch/ending/ending.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

namespace paceline::launch {
namespace {

RankRecord record(int pid, int wait_status, bool stopped = false) {
  return {.pid = pid, .wait_status = wait_status, .stopped = stopped};
}

TEST(Ending, RanksAreNamedInRuns) {
  EXPECT_EQ(name_ranks({3}), "rank 3");
  EXPECT_EQ(name_ranks({0, 1}), "ranks 0, 1");
  EXPECT_EQ(name_ranks({0, 2, 3, 4, 7, 8}), "ranks 0, 2-4, 7, 8");
}

TEST(Ending, ADoneRunSaysNothing) {
  EXPECT_EQ(describe_ending({}, {record(1, 0)}, "host"), "");
}

TEST(Ending, AFailedRunNamesTheFirstAndGroupsTheOthers) {
  std::vector<RankRecord> records(100, record(7, 1 << 8));
  records[1] = record(123, SIGKILL);
  records[99] = record(7, SIGTERM, true);
  records[0].not_started = "no memory";
  EXPECT_EQ(
      describe_ending({.kind = Outcome::Kind::failed, .exit_code = 137, .root = 1}, records,
                      "node7"),
      "paceline: rank 1 (pid 123, host node7) failed first: it was killed by signal 9 (SIGKILL)\n"
      "paceline: if nobody killed it, the machine ran out of memory: `dmesg` tells\n"
      "paceline: rank 0 could not be started; ranks 2-98 ended with code 1; rank 99 had to be "
      "stopped (SIGTERM)\n"
      "paceline: exit code 137\n");
}

TEST(Ending, ServersAreNamedApartFromRanksAndNotToldWhereTheyEndedWell) {
  std::vector<RankRecord> records(6, record(7, 1 << 8));
  for (int server = 0; server < 3; ++server)
    records[static_cast<std::size_t>(3 + server)].server = server;
  records[3] = {.pid = 123, .wait_status = SIGKILL, .server = 0};
  records[5].wait_status = 0;
  EXPECT_EQ(
      describe_ending({.kind = Outcome::Kind::failed, .exit_code = 137, .root = 3}, records, "h"),
      "paceline: server 0 (pid 123, host h) failed first: it was killed by signal 9 "
      "(SIGKILL)\n"
      "paceline: if nobody killed it, the machine ran out of memory: `dmesg` tells\n"
      "paceline: ranks 0-2 ended with code 1; server 1 ended with code 1\n"
      "paceline: exit code 137\n");
  EXPECT_EQ(verdict_about(3, records).what, "server 0 (pid 123) was killed by signal 9 (SIGKILL)");
}

TEST(Ending, ALossThatIsBorneTellsWhoComesInItsPlace) {
  std::vector<RankRecord> records(2, record(7, 0));
  records.push_back({.pid = 8, .wait_status = SIGKILL, .borne = true, .server = 1});
  records.push_back({.wait_status = 1 << 8,
                     .late = true,
                     .borne = true,
                     .host = "b",
                     .server = 2,
                     .report = Failure{Fault::io, "no disk\nat all", {}}});
  EXPECT_EQ(describe_loss(2, 5, records, "a"),
            "paceline: server 1 (pid 8, host a) was killed by signal 9 (SIGKILL); the job goes on, "
            "and server 4 is started in its place\n");
  EXPECT_EQ(describe_loss(3, std::nullopt, records, "a"),
            "paceline: server 2 (pid 0, host b) ended with code 1 (no disk); the job goes on "
            "without it\n");
}

TEST(Ending, TheLastServerWithAPartOfTheTablesIsNamedWithThoseThatDiedBefore) {
  std::vector<RankRecord> records(1, record(7, 1 << 8));
  records.push_back({.pid = 8, .wait_status = SIGKILL, .borne = true, .server = 0});
  records.push_back({.pid = 9, .wait_status = SIGKILL, .server = 1});
  EXPECT_EQ(verdict_about(2, records).what,
            "server 1 (pid 9) was killed by signal 9 (SIGKILL), after server 0: nobody has the "
            "part of the tables that they shared");
  records[2].report = Failure{Fault::io, "no disk", {}};
  EXPECT_EQ(verdict_about(2, records).what,
            "server 1 (pid 9) was killed by signal 9 (SIGKILL); it told: no disk");
  EXPECT_EQ(verdict_about(0, records).what, "rank 0 (pid 7) ended with code 1");
}

TEST(Ending, AServerThatDidNotEndWithTheRanksIsNamedAndNoLackOfMemoryIsBlamed) {
  std::vector<RankRecord> records(3, record(7, 0));
  records[1] = {.pid = 8, .wait_status = SIGKILL, .stopped = true, .server = 0, .stayed = true};
  records[2] = {.pid = 9, .server = 1, .stayed = true};
  const auto told = [&](int root) {
    return describe_ending({.kind = Outcome::Kind::failed, .exit_code = 1, .root = root}, records,
                           "h");
  };
  EXPECT_EQ(told(1),
            "paceline: server 0 (pid 8, host h) failed first: it had not ended when all ranks had, "
            "and had to be killed\n"
            "paceline: a server may take longer to end where `paceline run --grace` is longer\n"
            "paceline: rank 0 ended with code 0; server 1 could not be stopped in time\n"
            "paceline: exit code 1\n");
  EXPECT_EQ(how_it_ended(records[2]), "had not ended when all ranks had, and could not be killed");
}

TEST(Ending, WhatTheFirstRankToldIsRepeatedInOneLine) {
  auto first = record(9, 1 << 8);
  first.report = Failure{Fault::misuse, "batch 0 is empty\nmore", {}};
  EXPECT_EQ(
      describe_ending({.kind = Outcome::Kind::failed, .exit_code = 1, .root = 0}, {first}, "h"),
      "paceline: rank 0 (pid 9, host h) failed first: it ended with code 1\n"
      "paceline: rank 0 told: batch 0 is empty\n"
      "paceline: exit code 1\n");
  EXPECT_EQ(
      verdict_about(0, {first}),
      (Failure{
          Fault::peer_lost, "rank 0 (pid 9) ended with code 1; it told: batch 0 is empty", {0}}));
}

TEST(Ending, AStoppedRunSaysBecauseOfWhat) {
  const std::vector<RankRecord> records = {record(1, SIGINT, true), RankRecord{.pid = 2}};
  EXPECT_EQ(
      describe_ending({.kind = Outcome::Kind::interrupted, .detail = SIGINT, .exit_code = 130},
                      records, "h"),
      "paceline: the run was stopped by SIGINT\n"
      "paceline: rank 0 had to be stopped (SIGINT); rank 1 could not be stopped in time\n"
      "paceline: exit code 130\n");
}

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
