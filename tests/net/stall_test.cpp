// The report of a long wait in which data moves (tests/net/hosts); a wait in which nothing moves is
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

}  // namespace
}  // namespace paceline::test
