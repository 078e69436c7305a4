#include "paceline/app/cli/shared/job_options.h"

#include <fstream>
#include <iterator>
#include <sstream>

#include "paceline/app/cli/shared/quantities.h"
#include "paceline/core/base/check.h"
#include "paceline/core/collective/engine/engine_plugin.h"

namespace paceline::cli {
namespace {

std::string text_of(const std::string& option, const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  PACELINE_CHECK(in.is_open(), "{}: {} cannot be read; check the path", option, file);
  return {std::istreambuf_iterator<char>(in), {}};
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

}  // namespace paceline::cli
