// `paceline top` looks at real ranks from outside. Also covers paceline/app/cli/shared/text.h,
// which asks the terminal and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "tests/support/launched.h"

namespace paceline::test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

json look_at(const std::string& job, const char* members = "ranks") {
  Process top({.command = {binary("paceline"), "top", "--once", "--json", "--interval", "300ms",
                           "--job", job}});
  top.wait(Deadline::in(20s));
  return json::parse(top.output()).at(members);
}

TEST(Top, SeesTheRanksOfAJobAtWorkAndWhoHoldsTheOthersUp) {
  Process launcher(paceline_run({"-n", "2"}, {binary("collective_worker"), "stream"}));
  const auto pids = ready(launcher, 2);
  ASSERT_EQ(pids.size(), 2U) << launcher.error();
  const std::string job = variable_of(pids[0], "PACELINE_JOB");

  json ranks = look_at(job);
  ASSERT_EQ(ranks.size(), 2U);
  for (const int rank : {0, 1}) {
    const json& row = ranks[static_cast<std::size_t>(rank)];
    EXPECT_EQ(row.at("rank"), rank);
    EXPECT_EQ(row.at("pid"), pids[static_cast<std::size_t>(rank)]);
    EXPECT_EQ(row.at("world_size"), 2);
    EXPECT_GT(row.at("operations_per_second"), 0);
    EXPECT_GT(row.at("memory_bytes"), 0);
  }

  ASSERT_EQ(::kill(pids[1], SIGSTOP), 0);
  ranks = look_at(job);  // what was on its way has come
  std::string state;
  for (const auto deadline = Deadline::in(20s);
       !deadline.passed() && state.find("waits") == std::string::npos;) {
    ranks = look_at(job);
    state = ranks[0].at("state");
  }
  EXPECT_TRUE(ranks[1].at("stopped"));
  EXPECT_FALSE(ranks[0].at("stopped"));
  ASSERT_EQ(::kill(pids[1], SIGCONT), 0);
  EXPECT_THAT(state, HasSubstr("for all_reduce f32[20000] max"));
  EXPECT_EQ(ranks[1].at("operations_per_second"), 0) << "a stopped rank is seen as well";
  launcher.send(SIGTERM);
  EXPECT_TRUE(launcher.wait(Deadline::in(10s)));
}

TEST(Top, NamesTheRanksThatHaveNotCalledInitWhileOthersWaitForThem) {
  Process launcher(paceline_run({"-n", "3"}, {binary("collective_worker"), "1=before", "calls:3"}));
  ASSERT_TRUE(launcher.wait_for_output("[1] ready ", Deadline::in(10s))) << launcher.error();
  const std::string job = variable_of(*told(launcher.output(), 1, "ready"), "PACELINE_JOB");
  const json wanted = json::array({{{"job", job}, {"without_init", {1}}}});
  const auto waiting = Deadline::in(20s);
  json look;
  do {
    Process top({.command = {binary("paceline"), "top", "--once", "--json", "--interval", "50ms",
                             "--job", job}});
    top.wait(Deadline::in(20s));
    look = json::parse(top.output());
  } while (look.value("starting", json()) != wanted && !waiting.passed());
  ASSERT_EQ(look.at("ranks").size(), 2U) << look;
  EXPECT_EQ(look.value("starting", json()), wanted);
  Process table(
      {.command = {binary("paceline"), "top", "--once", "--interval", "50ms", "--job", job}});
  table.wait(Deadline::in(20s));
  EXPECT_THAT(table.output(),
              AllOf(HasSubstr("rank 1 has not called paceline::init() on this host"),
                    HasSubstr("for all ranks to join")));
  launcher.send(SIGTERM);
  EXPECT_TRUE(launcher.wait(Deadline::in(10s)));
}

TEST(Top, SeesWhatEachServerOfTheHostServes) {
  Process launcher(paceline_run({"-n", "2", "--servers", "2"}, {binary("table_worker"), "stream"}));
  const auto pids = ready(launcher, 2);
  ASSERT_EQ(pids.size(), 2U) << launcher.error();
  const std::string job = variable_of(pids[0], "PACELINE_JOB");
  EXPECT_EQ(look_at(job).size(), 2U);
  const json servers = look_at(job, "servers");
  ASSERT_EQ(servers.size(), 2U);
  for (const int index : {0, 1}) {
    const json& row = servers[static_cast<std::size_t>(index)];
    EXPECT_EQ(row.at("server"), index);
    EXPECT_GT(row.at("ranges"), 0) << "of the table that the workers train";
    EXPECT_GT(row.at("lowest_clock"), 0);
    EXPECT_GE(row.at("highest_clock"), row.at("lowest_clock"));
    EXPECT_GT(row.at("pushes_per_second"), 0);
  }
  launcher.send(SIGTERM);
  EXPECT_TRUE(launcher.wait(Deadline::in(10s)));
}

TEST(Top, SaysThatThereIsNoRankAndWhatWasWrongWithItsOptions) {
  Process none({.command = {binary("paceline"), "top", "--once", "--interval", "10ms", "--job",
                            "no-such-job"}});
  EXPECT_EQ(WEXITSTATUS(none.wait(Deadline::in(10s)).value()), 1);
  EXPECT_THAT(none.output(), HasSubstr("no rank of yours runs on this host"));
  Process wrong({.command = {binary("paceline"), "top", "--interval", "soon"}});
  EXPECT_EQ(WEXITSTATUS(wrong.wait(Deadline::in(10s)).value()), 2);
  EXPECT_THAT(wrong.error(), HasSubstr("--interval"));
}

}  // namespace
}  // namespace paceline::test
