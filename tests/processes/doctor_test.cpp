// `paceline doctor`: every check has a line and a level, and its exit code follows them.
// Also covers paceline/app/launch/hosts/host_checks.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"

namespace paceline::test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

json report_of(const ProcessOptions& options, int code) {
  const auto result = run(options, Deadline::in(40s));
  EXPECT_EQ(result.exit_code, code) << result.output << result.error;
  return json::parse(result.output, nullptr, false);
}

json check(const json& report, const std::string& name) {
  for (const auto& one : report["checks"]) {
    if (one["name"] == name) return one;
  }
  return {};
}

TEST(Doctor, LooksAtEverythingAndTriesBothTransports) {
  const auto report = report_of({.command = {binary("paceline"), "doctor", "--json", "-"}}, 0);
  EXPECT_EQ(report["ok"], true);
  std::set<std::string> names;
  for (const auto& one : report["checks"]) {
    names.insert(one["name"]);
    EXPECT_THAT((std::set<std::string>{"ok", "warn", "fail"}),
                ::testing::Contains(one["level"].get<std::string>()));
    EXPECT_EQ(one["level"] == "ok", one["remedy"] == "") << one;
  }
  for (const char* name : {"paceline",      "kernel",        "cores",          "memory",
                           "shared memory", "ulimit -n",     "ulimit -u",      "ptrace scope",
                           "interfaces",    "host name",     "ports",          "clock",
                           "time of day",   "ssh",           "transport shm",  "transport tcp",
                           "transport mpi", "transport ucx", "transport nccl", "cuda devices"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_EQ(check(report, "transport shm")["level"], "ok");
  EXPECT_EQ(check(report, "transport tcp")["level"], "ok");
  const bool has_ucx = transports().back() == "ucx";
  EXPECT_EQ(check(report, "transport ucx")["level"], has_ucx ? "ok" : "warn")
      << check(report, "transport ucx");
}

TEST(Doctor, TellsWhatIsTooLittleAndWhatToDo) {
  const auto few = report_of(
      {.command = {"bash", "-c", "ulimit -n 100; exec " + binary("paceline") + " doctor --json -"}},
      1);
  EXPECT_EQ(few["ok"], false);
  EXPECT_EQ(check(few, "ulimit -n")["level"], "fail");
  EXPECT_THAT(check(few, "ulimit -n")["remedy"].get<std::string>(),
              HasSubstr("raise the hard limit"));
  const auto alone = report_of({.command = {binary("paceline"), "doctor", "--json", "-"},
                                .environment = {{"PATH", "/nowhere"}}},
                               0);
  EXPECT_EQ(check(alone, "ssh")["level"], "warn");
  EXPECT_THAT(check(alone, "ssh")["remedy"].get<std::string>(), HasSubstr("openssh-client"));
}

// PATH is unset, because an mpirun that finds no network may wait until it is stopped.
TEST(Doctor, WithoutLoopbackNothingOfTcpWorks) {
  const auto cut =
      run({.command = {"unshare", "--net", "env", "PATH=/nowhere", binary("paceline"), "doctor"}},
          Deadline::in(40s));
  if (cut.error.find("unshare") != std::string::npos) GTEST_SKIP() << "NOT TESTED: " << cut.error;
  EXPECT_EQ(cut.exit_code, 1) << cut.output;
  EXPECT_THAT(cut.output, HasSubstr("fail  transport tcp"));
  EXPECT_THAT(cut.output, HasSubstr("warn  interfaces     none but loopback"));
}

}  // namespace
}  // namespace paceline::test
