#include "paceline/app/cli/bench/bench_ranks.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include <CLI/App.hpp>

#include "paceline/app/cli/shared/quantities.h"
#include "paceline/app/cli/shared/subcommand.h"
#include "paceline/app/launch/launch.h"
#include "paceline/core/base/check.h"
#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/membership/environment/launchers.h"
#include "paceline/core/membership/environment/variables.h"

namespace paceline::cli {
namespace {

constexpr int kMostBenchRanks = 4096;

bool a_launcher_is_there() {
  const auto variables = [](const char* name) { return std::getenv(name); };
  return membership::recognise(variables) != nullptr || std::getenv("TF_CONFIG") != nullptr;
}

int start_ranks(const RanksOptions& given, int ranks, const char* bench,
                const std::vector<std::string>& arguments) {
  if (!given.transport.empty()) parse_own_transport(given.transport);
  launch::RunOptions options;
  options.processes = ranks;
  options.transport = given.transport;
  options.bind = given.bind;
  GivenHosts hosts = given.hosts;
  hosts.has_server_hosts = !given.servers.hosts.empty();
  take_hosts(hosts, ranks, options);
  take_servers(given.servers, options);
  PACELINE_CHECK(ranks > 0 || !options.hosts.empty(),
                 "how many ranks? Give their number, as --ranks 2, or --hosts");
  options.program = std::filesystem::read_symlink("/proc/self/exe").string();
  options.command = {options.program, "bench", bench};
  std::ranges::copy(arguments, std::back_inserter(options.command));
  options.command.emplace_back("--as-rank");
  if (::isatty(STDERR_FILENO) == 1) options.command.emplace_back("--progress");
  options.prefix = false;
  return launch::run(options);
}

Job join(const RanksOptions& given) {
  namespace variable = membership::variable;
  if (!given.transport.empty()) ::setenv(variable::kTransport, given.transport.c_str(), 1);
  if (!given.determinism.empty()) ::setenv(variable::kDeterminism, given.determinism.c_str(), 1);
  return init();
}

void check_world(const Job& job, int ranks) {
  PACELINE_CHECK(ranks == 0 || ranks == job.world_size(),
                 "--ranks is {}, but the launcher started {}; leave --ranks out, or start {}",
                 ranks, job.world_size(), ranks);
}

}  // namespace

void add_ranks_options(CLI::App& app, RanksOptions& given) {
  app.add_option("--ranks", given.ranks,
                 "ranks to start, 1 to 4096 (default with hosts: every slot)")
      ->type_name("N");
  app.add_option("--hosts", given.hosts.hosts, "hosts and their slots, as a:2,b:2 or n[01-04]:8")
      ->type_name("LIST");
  app.add_option("--hostfile", given.hosts.hostfile,
                 "file with one host and its slots on each line")
      ->type_name("FILE");
  app.add_option("--ssh", given.hosts.ssh,
                 "program that runs a command on a host, as in paceline run")
      ->type_name("CMD");
  app.add_option("--transport", given.transport,
                 "how data travels: auto, shm, tcp, ucx; under mpirun also mpi (auto)")
      ->type_name("NAME");
  app.add_option("--determinism", given.determinism, "reproducible, fast (reproducible)")
      ->type_name("NAME");
  app.add_flag("--as-rank", given.as_rank)->group("");
  app.add_flag("--progress", given.progress)->group("");
}

void add_server_options(CLI::App& app, RanksOptions& given) {
  app.add_option("--servers", given.servers.servers, "servers to start beside the ranks")
      ->type_name("N");
  app.add_option("--server-hosts", given.servers.hosts,
                 "hosts of the servers, as c,d (default: those of the ranks, in turn)")
      ->type_name("LIST");
  app.add_option("--replicas", given.servers.replicas,
                 "servers that keep each range of a table, 1 to 3 (1)")
      ->type_name("R");
}

int run_on_ranks(RanksOptions given, const char* bench, const std::vector<std::string>& arguments,
                 const std::function<int(Job&, const RanksOptions&)>& measure) {
  const int ranks =
      given.ranks.empty() ? 0 : parse_count("--ranks", given.ranks, 1, kMostBenchRanks);
  if (!given.transport.empty()) parse_transport(given.transport);
  if (!given.determinism.empty()) parse_determinism(given.determinism);
  if (!given.as_rank && !a_launcher_is_there()) return start_ranks(given, ranks, bench, arguments);
  PACELINE_CHECK(given.as_rank || (given.hosts.hosts.empty() && given.hosts.hostfile.empty()),
                 "--hosts: a launcher has started the ranks already; leave --hosts out");
  given.progress = given.progress || ::isatty(STDERR_FILENO) == 1;
  Job job = join(given);
  try {
    check_world(job, ranks);
    return measure(job, given);
  } catch (const Error& error) {
    if (error.fault() == Fault::misuse && job.rank() != 0) return kUsage;
    throw;
  }
}

void on_rank_0(Job& job, const std::function<void()>& prepare) {
  std::string trouble;
  try {
    if (job.rank() == 0) prepare();
  } catch (const Error& error) {
    trouble = error.what();
  }
  std::vector<std::uint8_t> failed = {!trouble.empty()};
  job.world().broadcast(buffer_of(failed)).wait();
  PACELINE_CHECK(failed[0] == 0, "{}", trouble.empty() ? "rank 0 is not ready" : trouble);
}

}  // namespace paceline::cli
