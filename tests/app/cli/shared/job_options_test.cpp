#include "paceline/app/cli/shared/job_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "paceline/core/base/result.h"

namespace paceline::cli {
namespace {

TEST(JobOptions, HostsGiveTheRanksAllSlotsOrAsManyAsAreAskedFor) {
  launch::RunOptions all;
  take_hosts({.hosts = "a:2,b:3"}, 0, all);
  EXPECT_EQ(all.processes, 5);
  EXPECT_EQ(all.hosts, (std::vector<launch::HostShare>{{"a", 0, 2}, {"b", 2, 3}}));
  launch::RunOptions three;
  take_hosts({.hosts = "a:2,b:3", .ssh = "my ssh -v"}, 3, three);
  EXPECT_EQ(three.processes, 3);
  EXPECT_EQ(three.ssh, (std::vector<std::string>{"my", "ssh", "-v"}));
}

TEST(JobOptions, WithoutHostsNothingChanges) {
  launch::RunOptions options;
  options.processes = 7;
  take_hosts({}, 7, options);
  EXPECT_EQ(options.processes, 7);
  EXPECT_TRUE(options.hosts.empty());
}

TEST(JobOptions, RefuseWhatContradictsItself) {
  const GivenHosts wrong[] = {{.ssh = "ssh"},
                              {.hosts = "a", .hostfile = "b"},
                              {.hosts = "a", .ssh = "  "},
                              {.hostfile = "/there/is/none"}};
  for (const GivenHosts& given : wrong) {
    launch::RunOptions options;
    EXPECT_THROW(take_hosts(given, 1, options), Error) << given.hosts << given.hostfile;
  }
}

TEST(JobOptions, KnowTransportsAndPromisesByName) {
  EXPECT_EQ(parse_transport("tcp"), "tcp");
  EXPECT_EQ(parse_own_transport("tcp"), "tcp");
  EXPECT_EQ(parse_own_transport("ucx"), "ucx");
  EXPECT_EQ(parse_transport("mpi"), "mpi");
  EXPECT_EQ(parse_own_transport("nccl"), "nccl");
  EXPECT_THROW(parse_own_transport("mpi"), Error) << "mpirun starts those";
  EXPECT_THROW(parse_own_transport("pigeon"), Error);
  EXPECT_EQ(parse_determinism("fast"), "fast");
  EXPECT_THROW(parse_transport("pigeon"), Error);
  EXPECT_THROW(parse_determinism("slow"), Error);
}

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

TEST(ServerOptions, ReplicasAreAtMostThreeAndAtMostTheServers) {
  EXPECT_EQ(with({.servers = "3"}).replicas, 1);
  EXPECT_EQ(with({.servers = "3", .replicas = "3"}).replicas, 3);
  EXPECT_EQ(with({.replicas = "1"}).replicas, 1);
  EXPECT_THAT(refusal_of({.servers = "5", .replicas = "4"}),
              HasSubstr("--replicas: 4 is too many"));
  EXPECT_THAT(refusal_of({.servers = "5", .replicas = "0"}), HasSubstr("--replicas: 0 is too few"));
  EXPECT_THAT(refusal_of({.servers = "2", .replicas = "3"}),
              HasSubstr("there are 2; give --servers 3 or more, or fewer replicas"));
  EXPECT_THAT(refusal_of({.replicas = "2"}), HasSubstr("give --servers 2 or more"));
}

TEST(ServerOptions, ServersAreStartedAgainThreeTimesWhereTheyHaveReplicas) {
  EXPECT_EQ(with({.servers = "3", .replicas = "2"}).server_restarts, 3);
  EXPECT_EQ(with({.servers = "3", .replicas = "2", .restarts = "0"}).server_restarts, 0);
  EXPECT_THAT(refusal_of({.servers = "3", .restarts = "1"}),
              HasSubstr("give --replicas 2 or 3 too"));
}

}  // namespace

}  // namespace paceline::cli
