#include "paceline/app/cli/shared/job_options.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "paceline/app/cli/shared/quantities.h"
#include "paceline/core/base/check.h"
#include "paceline/core/collective/engine/engine_plugin.h"
#include "paceline/core/membership/environment/variables.h"

namespace paceline::cli {
namespace {

std::string text_of(const std::string& option, const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  PACELINE_CHECK(in.is_open(), "{}: {} cannot be read; check the path", option, file);
  return {std::istreambuf_iterator<char>(in), {}};
}

constexpr int kMostServers = 1024;
constexpr int kMostServerRestarts = 1'000'000;

// The workers will read this: the option, or else the variable that they inherit.
std::string told(const std::string& option, const char* variable) {
  const char* inherited = std::getenv(variable);
  return option.empty() && inherited != nullptr ? inherited : option;
}

std::string transport_of(const launch::RunOptions& options) {
  return told(options.transport, membership::variable::kTransport);
}

std::string device_transport_of(const launch::RunOptions& options) {
  return told(options.device_transport, membership::variable::kDeviceTransport);
}

}  // namespace

std::string parse_transport(const std::string& text) {
  return parse_choice("--transport", text, {"auto", "shm", "tcp", "ucx", "mpi"});
}

std::string parse_own_transport(const std::string& text) {
  PACELINE_CHECK(text != "mpi",
                 "--transport mpi: the MPI library wants its own launcher; start the program by "
                 "`PACELINE_TRANSPORT=mpi mpirun -n 4 program`");
  return parse_choice("--transport", text, {"auto", "shm", "tcp", "ucx", "nccl"});
}

bool wants_nccl(const launch::RunOptions& options) {
  return transport_of(options) == "nccl" || device_transport_of(options) == "nccl";
}

void check_device_transport(const launch::RunOptions& options) {
  const std::string devices = device_transport_of(options);
  PACELINE_CHECK(
      transport_of(options) != "nccl" || devices.empty() || devices == "auto" || devices == "nccl",
      "--transport nccl is another word for --device-transport nccl, and {} is given too; leave "
      "one out (PACELINE_TRANSPORT and PACELINE_DEVICE_TRANSPORT count as the options do)",
      devices);
}

void check_nccl_is_here() {
  const std::string obstacle = collective::load_engine("nccl").value()->obstacle();
  PACELINE_CHECK(obstacle.empty(), "--transport nccl: {}", obstacle);
}

std::string parse_determinism(const std::string& text) {
  return parse_choice("--determinism", text, {"reproducible", "fast"});
}

void take_hosts(const GivenHosts& given, int processes, launch::RunOptions& options) {
  const bool has_hosts = !given.hosts.empty() || !given.hostfile.empty();
  if (!given.ssh.empty()) {
    PACELINE_CHECK(has_hosts || given.has_server_hosts,
                   "--ssh: there is no other host to reach; name them by --hosts or --hostfile");
    std::istringstream words(given.ssh);
    options.ssh.assign(std::istream_iterator<std::string>(words), {});
    PACELINE_CHECK(!options.ssh.empty(),
                   "--ssh: it is empty; give the command that reaches a host, or leave it out");
  }
  if (!has_hosts) return;
  PACELINE_CHECK(given.hosts.empty() || given.hostfile.empty(),
                 "--hosts and --hostfile are both given; leave one out");
  const auto hosts =
      given.hostfile.empty()
          ? launch::parse_hosts(given.hosts).value()
          : launch::parse_hostfile(text_of("--hostfile", given.hostfile), given.hostfile).value();
  options.hosts = launch::share_ranks(hosts, processes).value();
  options.processes = options.hosts.back().first + options.hosts.back().count;
}

// How many servers keep each range, and how often one that died is started again.
void take_replicas(const GivenServers& given, launch::RunOptions& options) {
  if (!given.replicas.empty())
    options.replicas = parse_count("--replicas", given.replicas, 1, membership::kMostReplicas);
  PACELINE_CHECK(options.replicas == 1 || options.replicas <= options.servers,
                 "--replicas {}: so many servers keep each range of a table, and there {} {}; give "
                 "--servers {} or more, or fewer replicas",
                 options.replicas, options.servers == 1 ? "is" : "are", options.servers,
                 options.replicas);
  if (given.restarts.empty()) return;
  PACELINE_CHECK(options.replicas > 1,
                 "--server-restarts: a server is started again where another one keeps what it "
                 "kept; give --replicas 2 or 3 too");
  options.server_restarts =
      parse_count("--server-restarts", given.restarts, 0, kMostServerRestarts);
}

void take_servers(const GivenServers& given, launch::RunOptions& options) {
  if (!given.servers.empty())
    options.servers = parse_count("--servers", given.servers, 0, kMostServers);
  PACELINE_CHECK(given.hosts.empty() || options.servers > 0,
                 "--server-hosts: there is no server to place; give their number too, as in "
                 "--servers 2");
  take_replicas(given, options);
  if (options.servers == 0) return;
  PACELINE_CHECK(
      !wants_nccl(options),
      "--servers: tables lie in host memory, which --transport nccl does not carry; take "
      "auto, shm, tcp or ucx, and --device-transport auto");
  PACELINE_CHECK(given.hosts.empty() || options.nodes.nodes == 1,
                 "--server-hosts reaches hosts by ssh, --nnodes starts one launcher on each node; "
                 "leave --server-hosts out, and servers go to the nodes in turn");
  if (!given.hosts.empty())
    options.server_hosts = launch::parse_hosts(given.hosts, "--server-hosts").value();
}

}  // namespace paceline::cli
