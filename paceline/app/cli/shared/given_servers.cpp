#include "paceline/app/cli/shared/given_servers.h"

#include <cstdlib>

#include "paceline/app/cli/shared/quantities.h"
#include "paceline/core/base/check.h"
#include "paceline/core/membership/environment/variables.h"

namespace paceline::cli {
namespace {

constexpr int kMostServers = 1024;

}  // namespace

void take_servers(const GivenServers& given, launch::RunOptions& options) {
  if (!given.servers.empty())
    options.servers = parse_count("--servers", given.servers, 0, kMostServers);
  PACELINE_CHECK(given.hosts.empty() || options.servers > 0,
                 "--server-hosts: there is no server to place; give their number too, as in "
                 "--servers 2");
  if (options.servers == 0) return;
  const char* inherited = std::getenv(membership::variable::kTransport);
  const std::string transport =
      options.transport.empty() && inherited != nullptr ? inherited : options.transport;
  PACELINE_CHECK(
      transport != "nccl",
      "--servers: tables lie in host memory, which --transport nccl does not carry; take "
      "auto, shm, tcp or ucx");
  PACELINE_CHECK(given.hosts.empty() || options.nodes.nodes == 1,
                 "--server-hosts reaches hosts by ssh, --nnodes starts one launcher on each node; "
                 "leave --server-hosts out, and servers go to the nodes in turn");
  if (!given.hosts.empty())
    options.server_hosts = launch::parse_hosts(given.hosts, "--server-hosts").value();
}

}  // namespace paceline::cli
