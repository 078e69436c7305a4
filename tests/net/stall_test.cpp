// What is told of a wait that is long and moves (tests/net/hosts); of one that does not:
// CollectiveFailure.AFrozenRank...
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/nightly.h"
#include "tests/support/several_hosts.h"

namespace paceline::test {
namespace {

TEST_F(SeveralHosts, WhoReceivesSlowlyForLongIsNotCalledStalled) {
  if (!is_nightly()) GTEST_SKIP() << "a minute: runs with PACELINE_NIGHTLY=1";
  const std::string bench = binary("paceline") +
                            R"( bench collective --hosts "$PACELINE_NET_HOSTS" --ssh ")" +
                            hosts_script() + R"( ssh" --sizes 16MiB --blocks 1 --operations 1)";
  const auto result =
      run({.command = {hosts_script(), "with", "2", "--rate", "20mbit", "--", "bash", "-c", bench}},
          Deadline::in(200s));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_THAT(result.error, ::testing::Not(::testing::HasSubstr("stall")));
}

}  // namespace
}  // namespace paceline::test
