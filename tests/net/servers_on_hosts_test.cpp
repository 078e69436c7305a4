// Servers of a job over several hosts: beside the workers, and on hosts of their own.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/server/machine/quadratic_world.h"
#include "tests/support/several_hosts.h"

namespace paceline::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kTableSeed = 7;  // as in table_worker.cpp

std::string values_of_one_loop(int workers) {
  return fmt::format("{:a}",
                     fmt::join(QuadraticWorld::serial<double>(kTableSeed, workers, 5, 0.125), " "));
}

class ServersOnHosts : public SeveralHosts {
 protected:
  // Two hosts with a rank each, and a third for the two servers.
  static ProcessOptions run_dedicated(const std::string& behaviour) {
    return on_host_1(
        3, "IFS=, read -r a b c <<<\"$PACELINE_NET_HOSTS\"; exec " + binary("paceline") +
               " run --hosts $a,$b --servers 2 --server-hosts $c --ssh \"" + hosts_script() +
               " ssh\" -- " + binary("table_worker") + " " + behaviour);
  }
};

TEST_F(ServersOnHosts, BesideTheWorkersATableHasTheBitsOfOneLoop) {
  const auto result =
      run(run_over(2, {"--servers", "2"}, {binary("table_worker"), "train:5"}), Deadline::in(30s));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(told_by_all(result.output, "] values", 4), values_of_one_loop(4));
}

TEST_F(ServersOnHosts, OnHostsOfTheirOwnATableHasTheBitsOfOneLoop) {
  const auto result = run(run_dedicated("train:5"), Deadline::in(30s));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(told_by_all(result.output, "] values", 2), values_of_one_loop(2));
}

TEST_F(ServersOnHosts, AServerThatDiesThereEndsTheRunAndLeavesNothing) {
  Process launcher(run_dedicated("stream"));
  const auto pids = ready(launcher, 2, Deadline::in(20s));
  ASSERT_EQ(pids.size(), 2U) << launcher.error();
  const std::string job = variable_of(pids[0], "PACELINE_JOB");
  for (const pid_t pid : processes_of_job(job))
    if (variable_of(pid, "PACELINE_SERVER_INDEX") == "1") ::kill(pid, SIGKILL);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(5s))), 137) << launcher.error();
  EXPECT_THAT(launcher.output(), HasSubstr("[1] failed peer lost: "));
  EXPECT_THAT(launcher.error(), HasSubstr("paceline: server 1 (pid "));
  EXPECT_THAT(left_overs(job, pids, Deadline::in(1s)), IsEmpty());
}

}  // namespace
}  // namespace paceline::test
