#include "paceline/app/launch/run/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/app/launch/hosts/host.h"

namespace paceline::launch {
namespace {

using ::testing::HasSubstr;

RunOptions options_for(int processes, std::vector<HostShare> hosts,
                       const std::string& store_host = "127.0.0.1") {
  RunOptions options;
  options.processes = processes;
  options.program = "/bin/echo";
  options.command = {"echo", "two words"};
  options.hosts = std::move(hosts);
  options.store_host = store_host;
  return options;
}

TEST(Placement, OfOneHostStaysOnLoopback) {
  const auto placement = place(options_for(3, {}));
  EXPECT_EQ(placement.world_size, 3);
  EXPECT_EQ(placement.listen_host, "127.0.0.1");
  EXPECT_EQ(placement.hosts.size(), 1U);
  EXPECT_TRUE(placement.hosts[0].here);
}

TEST(Placement, AChosenStoreHostIsWhatOthersAreTold) {
  const auto options =
      options_for(3, {{"localhost", 0, 1}, {"no-such-host.invalid", 1, 2}}, "10.9.8.7");
  const auto placement = place(options);
  EXPECT_EQ(placement.listen_host, "10.9.8.7");
  const auto orders =
      orders_for(options, placement, {.world_size = 3, .store = "10.9.8.7:5000"}, 1);
  EXPECT_EQ(orders.first, 1);
  EXPECT_EQ(orders.count, 2);
  EXPECT_EQ(orders.job.store, "10.9.8.7:5000");
  EXPECT_EQ(orders.command, options.command);
  EXPECT_EQ(orders.secret, "") << "added when they are sent";
}

TEST(Placement, AHostThatCannotBeResolvedIsNamedWithTheRemedy) {
  const auto options = options_for(1, {{"no-such-host.invalid", 0, 1}});
  try {
    place(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::misuse);
    EXPECT_THAT(error.what(), HasSubstr("no-such-host.invalid"));
    EXPECT_THAT(error.what(), HasSubstr("--store"));
  }
}

TEST(Placement, ItsDescriptionTellsWhatWouldBeStartedWhere) {
  auto options = options_for(3, {{"localhost", 0, 1}, {"far", 1, 2}}, "10.9.8.7");
  options.passed = {"COLOUR=blue"};
  const auto text = describe(options, place(options));
  for (const char* part :
       {"3 ranks on 2 hosts", "host localhost: ranks 0-0", "host far: ranks 1-2", "far /",
        "run --as-agent", "echo 'two words'", "PACELINE_RANK=1\n", "PACELINE_WORLD_SIZE=3",
        "COLOUR=blue", "PACELINE_SECRET_FILE=(a file"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

}  // namespace
}  // namespace paceline::launch
