#include "paceline/app/cli/shared/given_servers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace paceline::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

launch::RunOptions with(const GivenServers& given, launch::RunOptions options = {}) {
  take_servers(given, options);
  return options;
}

std::string refusal_of(const GivenServers& given, const launch::RunOptions& options = {}) {
  try {
    with(given, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "not refused";
}

TEST(ServerOptions, AreANumberAndTheirHosts) {
  EXPECT_EQ(with({}).servers, 0);
  EXPECT_EQ(with({.servers = "2"}).servers, 2);
  EXPECT_TRUE(with({.servers = "2"}).server_hosts.empty());
  EXPECT_THAT(with({.servers = "3", .hosts = "c:2,d"}).server_hosts,
              ElementsAre(launch::HostSlots{"c", 2}, launch::HostSlots{"d", 1}));
}

TEST(ServerOptions, ThatMakeNoSenseAreNamedWithTheRemedy) {
  EXPECT_THAT(refusal_of({.servers = "-1"}), HasSubstr("--servers: -1 is too few"));
  EXPECT_THAT(refusal_of({.hosts = "c"}), HasSubstr("as in --servers 2"));
  EXPECT_THAT(refusal_of({.servers = "2", .hosts = "c:x"}), HasSubstr("--server-hosts: \"x\""));
  launch::RunOptions nodes;
  nodes.nodes.nodes = 2;
  EXPECT_THAT(refusal_of({.servers = "2", .hosts = "c"}, nodes),
              HasSubstr("leave --server-hosts out"));
  EXPECT_EQ(with({.servers = "2"}, nodes).servers, 2);
  launch::RunOptions nccl;
  nccl.transport = "nccl";
  EXPECT_THAT(refusal_of({.servers = "1"}, nccl), HasSubstr("auto, shm, tcp or ucx"));
}

}  // namespace
}  // namespace paceline::cli
