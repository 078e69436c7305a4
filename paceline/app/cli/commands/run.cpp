// `paceline run`: starts a program as a job on this host.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "paceline/app/cli/run/device_options.h"
#include "paceline/app/cli/run/emit_options.h"
#include "paceline/app/cli/shared/arguments.h"
#include "paceline/app/cli/shared/job_options.h"
#include "paceline/app/cli/shared/quantities.h"
#include "paceline/app/cli/shared/subcommand.h"
#include "paceline/app/launch/launch.h"
#include "paceline/core/base/check.h"
#include "paceline/core/membership/environment/variables.h"
#include "paceline/core/transport/socket/resolve.h"

namespace paceline::cli {
namespace {

constexpr int kMostProcesses = 4096;
constexpr int kMostRestarts = 1'000'000;
// A pod gets its name some seconds after its start, and the answer that there is none yet may be
// remembered for half a minute.
constexpr std::chrono::minutes kNamePatience{1};

constexpr const char* kRunAbout =
    "Starts N processes of a program, on this host or several, as one job: each is a rank, knows "
    "the "
    "others, and trains with them.\n"
    "Each line of their output has \"[rank] \" before it; only rank 0 gets stdin.";

constexpr const char* kRunMore = R"(Examples:
  paceline run -n 2 build/release/bin/mnist
  paceline run -n 4 --timeout 10min -- python3 train.py --epochs 3
  PACELINE_RUN_NP=2 PACELINE_RUN_GRACE=5s paceline run ./train
  paceline run --hosts a:2,b:2 ./train             over ssh: 2 ranks on each of the hosts a and b, in the current folder
  paceline run --hosts a:2,b:2 --dry-run ./train   shows what would be started where
  paceline run --devices 0,1 --ranks-per-device 2 ./train   4 processes: ranks 0 and 1 have device 0, 2 and 3 have device 1
  paceline run -n 4 --servers 2 ./train            and 2 servers, which keep the workers' tables; their lines begin with
                                                   "[server 0] ", and they end when all workers have left
  paceline run -n 4 --servers 3 --replicas 2 ./train   each range of a table is on two of the servers, so that the job
                                                   goes on when the process of one dies
  paceline run --nnodes 2 --node-rank R --rdzv-endpoint a:29400 --secret-file S -n 2 ./train
                                                   on each of two nodes, without ssh: R is 0 on host a, 1 on the other
  paceline run -n 4 --log-dir logs --redirects 3 ./train   lines only in logs/latest/rank_0.log, ...
  paceline run --emit slurm --nnodes 2 -n 4 --max-restarts 3 ./train >train.sbatch   2 nodes with 4 processes each
  paceline run --emit compose --emit-image me/train --nnodes 2 -n 1 -- train --checkpoint-dir /runs/a >compose.yaml

A hostfile has a line for each host: `a slots=2` (Open MPI, Horovod) or `a:2` (MPICH), # begins a comment.
Make the file for --secret-file with (umask 077; openssl rand -hex 32 >S), and copy it to each node. Over ssh no file is needed.

Every option is also read from PACELINE_RUN_<OPTION>: --operation-timeout from PACELINE_RUN_OPERATION_TIMEOUT.
Options that torchrun has too are read from its PET_<OPTION> as well.

What a program finds in its environment:
  PACELINE_RANK, PACELINE_WORLD_SIZE, PACELINE_LOCAL_RANK, ...   read by paceline::init()
  PACELINE_ROLE, PACELINE_SERVERS, PACELINE_REPLICAS             worker, the number of servers, if there are some, and how
                                                                 many of them keep each range of a table, if several do
  RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, ...    the same by torchrun's names
  CUDA_VISIBLE_DEVICES, PACELINE_RANKS_PER_DEVICE                by --devices and --ranks-per-device, for paceline::device_of()
  OMP_NUM_THREADS                                                cores / N, unless it was set
  PYTHONUNBUFFERED                                               1, so that lines of Python come at once, unless it was
                                                                 set; paceline::init() does so for C and C++
  GLIBC_TUNABLES                                                 freed memory is kept, in huge pages, unless it or a
                                                                 MALLOC_* variable was set (GLIBC_TUNABLES= for neither)
  PACELINE_TRANSPORT, PACELINE_DEVICE_TRANSPORT, PACELINE_DETERMINISM and PACELINE_OPERATION_TIMEOUT pass through as you
  set them, and so does PACELINE_LOG: quiet, info or debug, how much the workers write to stderr about themselves (info; warnings always)

--log-dir DIR keeps, in DIR/START.GENERATION/, to which DIR/latest leads: rank_N.log and server_N.log, the launcher's own words in
launcher.log, and the end as JSON in verdict.json: which process failed first, how each one ended. A file that cannot be written
any more is told once, and its lines are printed.

When a process fails, the others are told why, have --grace to end by themselves, then get SIGTERM, and 0.4 s later
SIGKILL. With --max-restarts all are then started again, after 1, 2, 4 .. 60 s, and go on from their newest checkpoint.
Ctrl-C, SIGTERM and SIGHUP are passed on to them, and at the end of --timeout they get SIGTERM: they have --stop-grace to
save and end, a second signal kills them. Ctrl-Z stops them too, until `fg` or `bg`. SIGUSR1 makes those save that catch it.
No process stays behind.

Exit codes:
  0      every process ended with 0
  2      wrong usage
  4      refused: --secret-file or --rdzv-id differs from node 0's
  124    --timeout has passed
  130    Ctrl-C; 128+n: the run was ended by signal n
  143    SIGTERM, here or to a process, after which all have saved and ended
  else   the code of the process that failed first, or 128+n when signal n killed it
)";

// The options as the user wrote them; checked_options() checks them, since it can name a value's
// source.
struct Given {
  std::string processes, grace, stop_grace, timeout, max_restarts, transport, determinism,
      operation_timeout, start_timeout, store, port_range;
  std::string hosts, hostfile, ssh, nodes, node_rank, endpoint, id, secret_file;
  std::string servers, server_hosts, replicas, server_restarts;
  std::string devices, ranks_per_device, device_transport;
  std::string log_dir, redirects, tees;
  std::vector<std::string> passed;
  std::string bind;
  std::string target, image, volume;  // --emit...
  bool no_prefix = false, timestamps = false, dry_run = false, as_agent = false, as_server = false;
};

class RunHelp : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App*, std::string) const override {
    return "Usage: paceline run -n N [options] [--] program [arguments]\n";
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_size() == 0 ? "" : " " + option->get_type_name();
  }
};

struct ValueOption {
  const char* names;
  std::string Given::*value;
  const char* variable;  // from which it is read too; "": none
  const char* type;
  const char* help;
};

// The options in the order of the help. -x, which may be given several times, stands between both.
constexpr ValueOption kProcessOptions[] = {
    {"-n,--np,--nproc-per-node", &Given::processes, "PACELINE_RUN_NP", "N",
     "processes to start, 1 to 4096: on this host, with --nnodes on each node, with hosts in all "
     "(default with hosts: every slot; with --devices: --ranks-per-device for each, or one)"},
    {"--grace", &Given::grace, "PACELINE_RUN_GRACE", "TIME",
     "time that the other processes have to end by themselves after a failure (1s), and servers "
     "after all ranks (10s)"},
    {"--stop-grace", &Given::stop_grace, "PACELINE_RUN_STOP_GRACE", "TIME",
     "time that the processes have to save and end after Ctrl-C, SIGTERM, SIGHUP or --timeout "
     "(30s)"},
    {"--max-restarts", &Given::max_restarts, "PACELINE_RUN_MAX_RESTARTS", "N",
     "when a process fails, start all of them again, up to N times in a row without a new "
     "checkpoint (0)"},
    {"--timeout", &Given::timeout, "PACELINE_RUN_TIMEOUT", "TIME",
     "stop the run after this time, as SIGTERM does; exit code 124"},
    {"--transport", &Given::transport, "PACELINE_RUN_TRANSPORT", "NAME",
     "how data travels between processes: auto, shm, tcp, ucx (auto); nccl is another word for "
     "--device-transport nccl"},
    {"--devices", &Given::devices, "PACELINE_RUN_DEVICES", "LIST",
     "CUDA devices for the ranks of each host, as 0,1 or UUIDs; where CUDA_VISIBLE_DEVICES is set "
     "they count among its entries (all that a host shows)"},
    {"--ranks-per-device", &Given::ranks_per_device, "PACELINE_RUN_RANKS_PER_DEVICE", "N",
     "neighbouring ranks that share a device: rank r of a host has device r / N (ranks take the "
     "devices in turn)"},
    {"--device-transport", &Given::device_transport, "PACELINE_RUN_DEVICE_TRANSPORT", "NAME",
     "how buffers on CUDA devices travel: auto, direct, nccl, staged (auto)"},
    {"--determinism", &Given::determinism, "PACELINE_RUN_DETERMINISM", "NAME",
     "reproducible: sums have the same bits in every run; fast (reproducible)"},
    {"--operation-timeout", &Given::operation_timeout, "PACELINE_RUN_OPERATION_TIMEOUT", "TIME",
     "a collective that takes longer fails (10min)"},
    {"--start-timeout", &Given::start_timeout, "PACELINE_RUN_START_TIMEOUT", "TIME",
     "time in which all processes must have joined after the first, and all hosts and nodes must "
     "have come (5min)"},
    {"--store", &Given::store, "PACELINE_RUN_STORE", "HOST:PORT",
     "address of this host where the job's store listens (127.0.0.1 and any free port; with "
     "hosts, the address by which they reach this host)"},
    {"--port-range", &Given::port_range, "PACELINE_RUN_PORT_RANGE", "A:B",
     "ports on which the store and the processes listen, for firewalls (any free ones)"},
    {"-H,--hosts,--host", &Given::hosts, "PACELINE_RUN_HOSTS", "LIST",
     "hosts and their slots, as a:2,b:2 or n[01-04]:8"},
    {"--hostfile", &Given::hostfile, "PACELINE_RUN_HOSTFILE", "FILE",
     "file with one host and its slots on each line"},
    {"--ssh", &Given::ssh, "PACELINE_RUN_SSH", "CMD",
     "program that runs a command on a host, called as CMD host command (ssh -T -o "
     "BatchMode=yes ...)"},
    {"--servers", &Given::servers, "PACELINE_RUN_SERVERS", "N",
     "servers beside the processes, which keep tables for them, on their hosts in turn (0)"},
    {"--replicas", &Given::replicas, "PACELINE_RUN_REPLICAS", "R",
     "servers that keep each range of a table, 1 to 3: with 2 or 3 the job goes on when the "
     "process of a server dies, if another one keeps the same; a lost host ends it (1)"},
    {"--server-restarts", &Given::server_restarts, "PACELINE_RUN_SERVER_RESTARTS", "N",
     "servers that are started in the place of such that died, with --replicas 2 or 3 (3)"},
    {"--server-hosts", &Given::server_hosts, "PACELINE_RUN_SERVER_HOSTS", "LIST",
     "hosts of the servers instead, as c,d or c:2,d; they take them in turn"},
};
constexpr ValueOption kNodeOptions[] = {
    {"--nnodes", &Given::nodes, "PACELINE_RUN_NNODES", "N",
     "nodes of the job, if `paceline run` is started on each of them"},
    {"--node-rank", &Given::node_rank, "PACELINE_RUN_NODE_RANK", "R",
     "number of this node, 0 to N-1"},
    {"--rdzv-endpoint", &Given::endpoint, "PACELINE_RUN_RDZV_ENDPOINT", "HOST:PORT",
     "address at which node 0 listens for the other nodes"},
    {"--rdzv-id", &Given::id, "PACELINE_RUN_RDZV_ID", "NAME",
     "name of the job, if several use one endpoint"},
    {"--secret-file", &Given::secret_file, "PACELINE_RUN_SECRET_FILE", "FILE",
     "file with the job's secret, 64 hexadecimal digits, mode 0600; for --nnodes"},
    {"--bind", &Given::bind, "PACELINE_RUN_BIND", "NAME",
     "cores: each process on cores of its own, if there are enough; none (cores)"},
    {"--log-dir", &Given::log_dir, "PACELINE_RUN_LOG_DIR", "DIR",
     "write the output of each rank to DIR/latest/rank_<n>.log too; each run and each restart has "
     "a folder of its own in DIR"},
    {"-r,--redirects", &Given::redirects, "PACELINE_RUN_REDIRECTS", "MASK",
     "write output only to the file: 1 stdout, 2 stderr, 3 both; or by rank, 0:1,1:3"},
    {"-t,--tee", &Given::tees, "PACELINE_RUN_TEE", "MASK",
     "write output both to the file and to the terminal, as --redirects (3)"},
    {"--emit", &Given::target, "", "TARGET",
     "print the run as a manifest of another system, and start nothing"},
    {"--emit-image", &Given::image, "PACELINE_RUN_EMIT_IMAGE", "IMAGE",
     "image of the containers in the manifest; it holds Paceline and the program"},
    {"--emit-volume", &Given::volume, "PACELINE_RUN_EMIT_VOLUME", "NAME[:DIR]",
     "volume for checkpoints, and its folder in the containers (the program's --checkpoint-dir)"},
};

void add_options(CLI::App& app, Given& given) {
  const auto add = [&](std::span<const ValueOption> options) {
    for (const auto& [names, value, variable, type, help] : options)
      app.add_option(names, given.*value, help)->envname(variable)->type_name(type);
  };
  add(kProcessOptions);
  app.add_option("-x", given.passed,
                 "passes a variable to the workers on every host; PACELINE_* settings, "
                 "OMP_NUM_THREADS, GLIBC_TUNABLES and MALLOC_* are always passed")
      ->type_name("NAME[=VALUE]")
      ->allow_extra_args(false);
  add(kNodeOptions);
  app.add_flag("--dry-run", given.dry_run, "show what would be started where, and start nothing");
  app.add_flag("--as-agent", given.as_agent)->group("");    // --ssh starts it
  app.add_flag("--as-server", given.as_server)->group("");  // --servers starts it
  app.add_flag("--no-prefix", given.no_prefix, "print lines without \"[rank] \" before them")
      ->envname("PACELINE_RUN_NO_PREFIX");
  app.add_flag("--timestamps", given.timestamps,
               "begin each line with the time at which it came, here and in the files")
      ->envname("PACELINE_RUN_TIMESTAMPS");
}

struct OtherName {
  const char* variable;
  std::string Given::*option;
};

// Other names of -n, and the variables from which torchrun reads its options (Kubernetes' operators
// set them).
constexpr OtherName kOtherNames[] = {
    {"PACELINE_RUN_N", &Given::processes},
    {"PACELINE_RUN_NPROC_PER_NODE", &Given::processes},
    {"PET_NPROC_PER_NODE", &Given::processes},
    {"PET_NNODES", &Given::nodes},
    {"PET_NODE_RANK", &Given::node_rank},
    {"PET_RDZV_ENDPOINT", &Given::endpoint},
    {"PET_RDZV_ID", &Given::id},
    {"PET_LOG_DIR", &Given::log_dir},
    {"PET_REDIRECTS", &Given::redirects},
    {"PET_TEE", &Given::tees},
    {"PET_MAX_RESTARTS", &Given::max_restarts},
};

void take_other_names(Given& given) {
  for (const auto& [variable, option] : kOtherNames) {
    const char* value = std::getenv(variable);
    if ((given.*option).empty() && value != nullptr) given.*option = value;
  }
}

void take_nodes(const Given& given, launch::RunOptions& options) {
  if (given.nodes.empty()) {
    const auto lonely = [](const char* option, const std::string& value) {
      PACELINE_CHECK(value.empty(), "{} is for --nnodes; give the number of nodes too", option);
    };
    lonely("--node-rank", given.node_rank);
    lonely("--rdzv-endpoint", given.endpoint);
    lonely("--secret-file", given.secret_file);
    return;
  }
  PACELINE_CHECK(
      given.nodes.find(':') == std::string::npos,
      "--nnodes: {} is a range; a run that grows and shrinks is not there yet, give one number",
      given.nodes);
  launch::NodeOptions& nodes = options.nodes;
  nodes.nodes = parse_count("--nnodes", given.nodes, 1, kMostProcesses);
  if (nodes.nodes == 1) return;
  PACELINE_CHECK(
      options.hosts.empty(),
      "--nnodes starts one launcher on each node, --hosts reaches them by ssh; leave one out");
  PACELINE_CHECK(!given.node_rank.empty(), "which node is this? Give --node-rank 0 to {}",
                 nodes.nodes - 1);
  nodes.node_rank = parse_count("--node-rank", given.node_rank, 0, nodes.nodes - 1);
  PACELINE_CHECK(!given.endpoint.empty(),
                 "where do the nodes meet? Give --rdzv-endpoint HOST:PORT, an address of node 0");
  Deadline named = Deadline::in(kNamePatience);
  if (options.timeout) named = named.sooner(Deadline::at(options.asked + *options.timeout));
  nodes.endpoint = launch::find_endpoint(
      given.endpoint, named,
      nodes.node_rank == 0 ? transport::resolve_for_others : transport::resolve_tcp_address);
  PACELINE_CHECK(nodes.node_rank == 0 || nodes.endpoint.host != "127.0.1.1",
                 "--rdzv-endpoint: {} means {} here, which is this host itself; give an address of "
                 "node 0's host",
                 given.endpoint, nodes.endpoint.host);
  PACELINE_CHECK(
      nodes.endpoint.port > 0,
      "--rdzv-endpoint: port 0 cannot be found by the other nodes; give a number from 1 to 65535");
  nodes.processes = options.processes;
  nodes.patience = options.start_timeout;
  nodes.stall = options.stall;
  if (!given.id.empty()) nodes.id = given.id;
  PACELINE_CHECK(!given.secret_file.empty(),
                 "nodes need a secret that proves who belongs to the job: (umask 077; openssl rand "
                 "-hex 32 >S), copy S to each "
                 "node, and give --secret-file S");
  const auto secret = membership::Secret::from_file(given.secret_file);
  PACELINE_CHECK(secret.has_value(), "--secret-file: {}", secret.error().what);
  nodes.secret = secret.value();
}

void take_logs(const Given& given, launch::RunOptions& options) {
  PACELINE_CHECK(!given.log_dir.empty() || (given.redirects.empty() && given.tees.empty()),
                 "{}: into which files? Give --log-dir DIR",
                 given.tees.empty() ? "--redirects" : "--tee");
  options.logs.folder = given.log_dir;
  const bool masked = !given.redirects.empty() || !given.tees.empty();
  if (masked) options.logs.tees = launch::StreamMask(0);
  if (!given.redirects.empty())
    options.logs.redirects = launch::StreamMask::parse("--redirects", given.redirects).value();
  if (!given.tees.empty())
    options.logs.tees = launch::StreamMask::parse("--tee", given.tees).value();
}

void take_passed(const Given& given, launch::RunOptions& options) {
  for (const std::string& word : given.passed) {
    const auto name = word.substr(0, word.find('='));
    PACELINE_CHECK(!name.empty() && !launch::is_a_launchers(name),
                   "-x: \"{}\" cannot be passed on; give NAME or NAME=VALUE, and no variable that "
                   "a launcher sets",
                   word);
    const char* value = std::getenv(name.c_str());
    PACELINE_CHECK(word != name || value != nullptr,
                   "-x: {} is not set here; set it, or give {}=VALUE", name, name);
    options.passed.push_back(word == name ? fmt::format("{}={}", name, value) : word);
  }
}

// The workers' variable counts for the launcher too, since it watches their start.
void take_start(const Given& given, launch::RunOptions& options) {
  namespace variable = membership::variable;
  if (!given.start_timeout.empty())
    options.start_timeout = parse_duration("--start-timeout", given.start_timeout);
  else if (const char* time = std::getenv(variable::kStartTimeout))
    options.start_timeout = parse_duration(variable::kStartTimeout, time);
  if (const char* stall = std::getenv(variable::kStallTime))
    options.stall = parse_duration(variable::kStallTime, stall);
}

void take_ports(const Given& given, launch::RunOptions& options) {
  const char* variable = std::getenv(membership::variable::kPortRange);
  options.port_range =
      given.port_range.empty() && variable != nullptr ? variable : given.port_range;
  PACELINE_CHECK(
      options.port_range.empty() || transport::parse_port_range(options.port_range).has_value(),
      "--port-range: \"{}\" is no range of ports; give two from 1 to 65535, as 20000:20100",
      options.port_range);
}

void take_store(const Given& given, launch::RunOptions& options) {
  if (given.store.empty()) return;
  const bool one_host =
      options.hosts.empty() && options.server_hosts.empty() && options.nodes.nodes == 1;
  const Address address = one_host ? parse_loopback_address("--store", given.store)
                                   : parse_address("--store", given.store);
  options.store_host = address.host;
  options.store_port = address.port;
}

launch::RunOptions checked_options(const Given& given, const std::vector<std::string>& command) {
  launch::RunOptions options;
  const bool has_hosts = !given.hosts.empty() || !given.hostfile.empty();
  PACELINE_CHECK(given.ranks_per_device.empty() || !given.processes.empty() || has_hosts ||
                     !given.devices.empty(),
                 "how many processes? --ranks-per-device {} needs -n or the --devices that they "
                 "share, as in --devices 0,1",
                 given.ranks_per_device);
  PACELINE_CHECK(!given.processes.empty() || has_hosts || !given.devices.empty(),
                 "how many processes? Give their number, as in `paceline run -n 2 program`");
  if (!given.processes.empty())
    options.processes = parse_count("-n", given.processes, 1, kMostProcesses);
  if (!given.grace.empty())
    options.grace = options.server_grace = parse_duration("--grace", given.grace);
  if (!given.stop_grace.empty())
    options.stop_grace = parse_duration("--stop-grace", given.stop_grace);
  if (!given.max_restarts.empty())
    options.max_restarts = parse_count("--max-restarts", given.max_restarts, 0, kMostRestarts);
  if (const char* restarts = std::getenv("SLURM_RESTART_COUNT"))
    options.first_generation += parse_count("SLURM_RESTART_COUNT", restarts, 0, kMostRestarts);
  if (!given.timeout.empty()) options.timeout = parse_duration("--timeout", given.timeout);
  if (!given.transport.empty()) options.transport = parse_own_transport(given.transport);
  take_devices({given.devices, given.ranks_per_device, given.device_transport},
               !given.processes.empty() || has_hosts, options);
  if (!given.determinism.empty()) options.determinism = parse_determinism(given.determinism);
  if (!given.operation_timeout.empty()) {
    parse_duration("--operation-timeout", given.operation_timeout);
    options.operation_timeout = given.operation_timeout;
  }
  take_start(given, options);
  take_hosts({given.hosts, given.hostfile, given.ssh, !given.server_hosts.empty()},
             given.processes.empty() ? 0 : options.processes, options);
  take_nodes(given, options);
  check_devices(options);
  take_servers({given.servers, given.server_hosts, given.replicas, given.server_restarts}, options);
  take_ports(given, options);
  take_store(given, options);
  take_logs(given, options);
  take_passed(given, options);
  options.prefix = !given.no_prefix;
  options.timestamps = given.timestamps;
  if (!given.bind.empty())
    options.bind = parse_choice("--bind", given.bind, {"cores", "none"}) == "cores";
  PACELINE_CHECK(!command.empty(),
                 "no program given; write it after the options, as in `paceline run -n 2 program`");
  options.command = command;
  return options;
}

// This host must have the program and what the transport needs.
void take_this_host(launch::RunOptions& options) {
  if (options.hosts.empty()) {
    if (options.device_transport == "nccl") check_nccl_is_here();
    check_devices_here(options);
  }
  const char* path = std::getenv("PATH");
  options.program =
      launch::find_program(options.command.front(), path == nullptr ? "/usr/bin:/bin" : path)
          .value();
}

struct NamedOption {
  const char* name;
  std::string Given::*value;
};

// The options that a manifest hands on to the launcher of each node.
constexpr NamedOption kForLaunchers[] = {
    {"--grace", &Given::grace},
    {"--stop-grace", &Given::stop_grace},
    {"--timeout", &Given::timeout},
    {"--max-restarts", &Given::max_restarts},
    {"--start-timeout", &Given::start_timeout},
    {"--port-range", &Given::port_range},
    {"--bind", &Given::bind},
    {"--devices", &Given::devices},
    {"--ranks-per-device", &Given::ranks_per_device},
    {"--log-dir", &Given::log_dir},
    {"--redirects", &Given::redirects},
    {"--tee", &Given::tees},
};

// The options that place a run on hosts, which a manifest leaves to its system.
constexpr NamedOption kPlaces[] = {
    {"--hosts", &Given::hosts},
    {"--hostfile", &Given::hostfile},
    {"--ssh", &Given::ssh},
    {"--node-rank", &Given::node_rank},
    {"--rdzv-endpoint", &Given::endpoint},
    {"--secret-file", &Given::secret_file},
    {"--store", &Given::store},
};

// The run as a manifest, after the checks of its options.
std::string manifest(Given given, const std::vector<std::string>& command) {
  const launch::Target& target = parse_target(given.target);
  for (const auto& [name, value] : kPlaces) {
    PACELINE_CHECK((given.*value).empty(),
                   "{}: the manifest of --emit {} places the run by itself; leave it out, and give "
                   "--nnodes for the nodes and -n for the processes on each",
                   name, target.name);
  }
  PACELINE_CHECK(given.servers.empty() && given.server_hosts.empty() && given.replicas.empty() &&
                     given.server_restarts.empty(),
                 "--servers: the manifest of --emit {} starts no servers; start the run by "
                 "`paceline run --servers` itself, on hosts or with --nnodes",
                 target.name);
  PACELINE_CHECK(!given.dry_run, "--dry-run: --emit starts nothing either; leave one out");
  EmitOptions emit = {.image = given.image, .volume = given.volume, .name = given.id};
  if (!given.nodes.empty()) emit.nodes = parse_count("--nnodes", given.nodes, 1, kMostProcesses);
  for (const auto& [name, value] : kForLaunchers)
    if (!(given.*value).empty()) emit.for_launchers.push_back({name, given.*value});
  if (given.no_prefix) emit.for_launchers.push_back({"--no-prefix", ""});
  if (given.timestamps) emit.for_launchers.push_back({"--timestamps", ""});
  const std::string transport = given.transport;
  if (!target.own_launcher && transport == "mpi") given.transport.clear();
  given.nodes.clear();
  launch::RunOptions options = checked_options(given, command);
  options.transport = transport;
  return target.write(
      plan_of(target, emit, options, launch::settings_in(launch::own_environment())));
}

int be_agent() {
  launch::AgentOptions agent;
  agent.input = transport::FileDescriptor(::dup(STDIN_FILENO));
  agent.output = transport::FileDescriptor(::dup(STDOUT_FILENO));
  return launch::run_agent(std::move(agent));
}

struct RunLine {
  RunLine() {
    app.formatter(std::make_shared<RunHelp>());
    app.get_formatter()->column_width(34);
    app.footer(fmt::format("{}\nWhat --emit prints, for --nnodes nodes with -n processes each:\n{}",
                           kRunMore, targets_text()));
    add_options(app, given);
  }
  CLI::App app{kRunAbout, "paceline run"};
  Given given;
};

int run_main(const std::vector<std::string>& arguments) {
  RunLine line;
  CLI::App& app = line.app;
  Given& given = line.given;
  auto [words, command] = split_command(app, arguments);
  if (!parse(app, std::move(words))) return 0;
  if (given.as_agent) return be_agent();
  if (given.as_server) return launch::run_server();
  take_other_names(given);
  if (!given.target.empty()) {
    fmt::print("{}", manifest(given, command));
    return 0;
  }
  PACELINE_CHECK(given.image.empty() && given.volume.empty(),
                 "--emit-image and --emit-volume are for --emit; give the target too");
  auto options = checked_options(given, command);
  take_this_host(options);
  if (!given.dry_run) return launch::run(options);
  launch::dry_run(options);
  return 0;
}

}  // namespace

namespace catalogue {

Subcommand run() {
  return {.name = "run",
          .summary = "start a program as N processes, on this host or several",
          .main = run_main,
          .described = described<RunLine>,
          .place = 10};
}

}  // namespace catalogue
}  // namespace paceline::cli
