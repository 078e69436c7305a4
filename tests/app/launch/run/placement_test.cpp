#include "paceline/app/launch/run/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/app/launch/hosts/hosts.h"

namespace paceline::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

std::vector<std::vector<int>> servers_of(const Placement& placement) {
  std::vector<std::vector<int>> servers;
  for (const PlacedHost& host : placement.hosts) servers.push_back(host.servers);
  return servers;
}

TEST(Placement, ServersGoToTheWorkersHostsInTurn) {
  auto options = options_for(3, {{"localhost", 0, 1}, {"far", 1, 2}}, "10.9.8.7");
  options.servers = 3;
  const auto placement = place(options);
  EXPECT_THAT(servers_of(placement), ElementsAre(ElementsAre(0, 2), ElementsAre(1)));
  const auto orders =
      orders_for(options, placement, {.world_size = 3, .servers = 3, .store = "10.9.8.7:1"}, 0);
  const auto places = places_of(orders);
  ASSERT_EQ(places.size(), 3U);
  EXPECT_FALSE(places[0].server.has_value());
  EXPECT_EQ(places[1].server, 0);
  EXPECT_EQ(places[1].rank, 3) << "servers are numbered after the ranks";
  EXPECT_EQ(places[2].server, 2);
  EXPECT_EQ(places[2].rank, 5);
}

TEST(Placement, HostsOfServersTakeThemInTurnAndMayHaveRanksToo) {
  auto options = options_for(2, {{"localhost", 0, 1}, {"a", 1, 1}}, "10.9.8.7");
  options.servers = 5;
  options.server_hosts = {{"c", 2}, {"a", 1}};
  const auto placement = place(options);
  EXPECT_THAT(servers_of(placement),
              ElementsAre(IsEmpty(), ElementsAre(2), ElementsAre(0, 1, 3, 4)));
  EXPECT_EQ(placement.world_size, 2);
  EXPECT_EQ(placement.hosts[2].share, (HostShare{"c", 2, 0}));
  const auto orders =
      orders_for(options, placement, {.world_size = 2, .servers = 5, .store = "10.9.8.7:1"}, 2);
  EXPECT_EQ(orders.nodes, 2) << "hosts with ranks";
  EXPECT_EQ(places_of(orders).size(), 4U);
  const auto text = describe(options, placement);
  EXPECT_THAT(text, HasSubstr("2 ranks and 5 servers on 3 hosts"));
  EXPECT_THAT(text, HasSubstr("host c: servers 0, 1, 3, 4\n"));
  EXPECT_THAT(text, HasSubstr("host a: ranks 1-1; server 2\n"));
}

TEST(Placement, AHostWithSeveralReplicasOfARangeIsTold) {
  const auto told = [](int servers, int replicas, std::vector<HostSlots> hosts) {
    auto options = options_for(1, {{"localhost", 0, 1}}, "10.9.8.7");
    options.servers = servers;
    options.replicas = replicas;
    options.server_hosts = std::move(hosts);
    return shared_replicas(options, place(options));
  };
  const std::vector<HostSlots> two = {{"c", 1}, {"d", 1}}, three = {{"c", 1}, {"d", 1}, {"e", 1}};
  EXPECT_EQ(told(2, 2, two), "");
  EXPECT_EQ(told(4, 2, two), "");
  EXPECT_EQ(told(3, 3, three), "");
  EXPECT_THAT(told(3, 2, two), HasSubstr("host c has several replicas of one range of a table "
                                         "(--replicas 2)"))
      << "servers 2 and 0";
  EXPECT_THAT(told(4, 3, two), HasSubstr("host c has"));
  EXPECT_THAT(told(2, 2, {}), HasSubstr("host localhost has"));
  EXPECT_EQ(told(3, 1, two), "");
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

TEST(Placement, ItsOrdersAndItsDescriptionNameTheDevicesOfEachHost) {
  auto options = options_for(4, {{"localhost", 0, 2}, {"far", 2, 2}}, "10.9.8.7");
  options.passed = {"CUDA_VISIBLE_DEVICES=4,5,6,7"};
  options.devices = {"0", "3"};
  options.ranks_per_device = 1;
  options.device_transport = "staged";
  const auto text = describe(options, place(options));
  for (const char* part : {"CUDA_VISIBLE_DEVICES=4,7\n", "PACELINE_RANKS_PER_DEVICE=1\n",
                           "PACELINE_DEVICE_TRANSPORT=staged\n"}) {
    const auto once = text.find(part);
    ASSERT_NE(once, std::string::npos) << part;
    EXPECT_NE(text.find(part, once + 1), std::string::npos) << "also on the other host";
  }
}

}  // namespace
}  // namespace paceline::launch
