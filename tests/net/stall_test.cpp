// The words of a long wait in which data move (tests/net/hosts); a wait in which nothing moves is
// tested by CollectiveFailure.AFrozenRank...
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/nightly.h"
#include "tests/support/several_hosts.h"

namespace paceline::test {
namespace {

// On two hosts with a link that carries a megabyte in 0.4 s.
class SlowLink : public SeveralHosts {
 protected:
  static void expect_no_stall(const std::string& command, const std::string& then) {
    const std::string launcher = binary("paceline") + " " + command +
                                 R"( --hosts "$PACELINE_NET_HOSTS" --ssh ")" + hosts_script() +
                                 R"( ssh" )" + then;
    const auto result = run({.command = {hosts_script(), "with", "2", "--rate", "20mbit", "--",
                                         "bash", "-c", launcher}},
                            Deadline::in(200s));
    EXPECT_EQ(result.exit_code, 0) << result.error;
    EXPECT_THAT(result.error, ::testing::Not(::testing::HasSubstr("stall")));
  }
};

TEST_F(SlowLink, WhoReducesSlowlyForLongIsNotCalledStalled) {
  if (!is_nightly()) GTEST_SKIP() << "a minute: runs with PACELINE_NIGHTLY=1";
  expect_no_stall("bench collective", "--sizes 16MiB --blocks 1 --operations 1");
}

TEST_F(SlowLink, WhoReceivesSlowlyForLongIsNotCalledStalled) {
  if (!is_nightly()) GTEST_SKIP() << "10 s: runs with PACELINE_NIGHTLY=1";
  expect_no_stall("run", "-- " + binary("collective_worker") + " send:24");
}

// The values and the update take 2.5 s each way, and questions and answers wait behind them.
TEST_F(SlowLink, AServerToWhichDataAreStillSentIsNotCalledSilent) {
  ProcessOptions run = {
      .command = {hosts_script(), "with", "2", "--rate", "10mbit", "--", "bash", "-c",
                  fmt::format("IFS=, read -r a b <<<\"$PACELINE_NET_HOSTS\"; {} run --hosts $a:1 "
                              "--servers 1 --server-hosts $b --ssh \"{} ssh\" -- {} push 3072",
                              binary("paceline"), hosts_script(), binary("held_worker"))}};
  run.environment["PACELINE_STALL_TIME"] = "500ms";
  Process launcher(run);
  const std::string in = "stall: for 0.5 s rank 0 waits in ";
  EXPECT_TRUE(launcher.wait_for_error(in + "pull of table 'w' for server 0 to send what is there\n",
                                      Deadline::in(30s)))
      << launcher.error();
  const auto workers = ready(launcher, 1, Deadline::in(10s));
  ASSERT_EQ(workers.size(), 1U) << launcher.error();
  ::kill(workers[0], SIGUSR1);
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(30s))), 0);
  const std::string sent =
      " of table 'w' for server 0, to which [0-9.]+ MiB are still being sent \\([0-9.]+ [KM]iB a "
      "second";
  for (const char* call : {"assign", "push"})
    EXPECT_THAT(launcher.error(), ::testing::ContainsRegex(in + call + sent));
  EXPECT_THAT(launcher.error(), ::testing::Not(::testing::HasSubstr("does not answer")));
}

}  // namespace
}  // namespace paceline::test
