#include "paceline/app/cli/shared/job_options.h"

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

}  // namespace
}  // namespace paceline::cli
