#include "paceline/app/launch/hosts/host_checks.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "paceline/app/launch/hosts/hosts.h"
#include "paceline/app/launch/hosts/shared_devices.h"
#include "paceline/app/launch/process/program.h"
#include "paceline/app/launch/process/secret_file.h"
#include "paceline/core/base/processors.h"
#include "paceline/core/collective/engine/engine_plugin.h"
#include "paceline/core/device/device_plugin.h"
#include "paceline/core/transport/fabric/fabric_plugin.h"
#include "paceline/core/transport/memory/shared_memory.h"
#include "paceline/core/transport/socket/resolve.h"

namespace paceline::launch {
namespace {

using Level = HostCheck::Level;

std::string first_line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

HostCheck kernel() {
  utsname about = {};
  ::uname(&about);
  return {Level::ok, "kernel",
          fmt::format("{} {} {}", about.sysname, about.release, about.machine)};
}

HostCheck cores() {
  return {Level::ok, "cores", fmt::format("{} usable by this process", usable_cores())};
}

HostCheck memory() {
  std::ifstream file("/proc/meminfo");
  long mebibytes = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("MemAvailable:")) mebibytes = std::atol(line.c_str() + 13) / 1024;
  }
  const auto found = fmt::format("{} MiB available", mebibytes);
  if (mebibytes >= 1024) return {Level::ok, "memory", found};
  return {Level::warn, "memory", found,
          "a rank needs its model, gradients and libtorch (0.3 GiB): free memory, or start fewer "
          "ranks"};
}

HostCheck shared_memory() {
  const auto memory = transport::SharedMemory::create(std::size_t{64} << 20);
  if (memory) return {Level::ok, "shared memory", "64 MiB of sealed memory are available"};
  return {Level::fail, "shared memory", memory.error().what,
          "raise the container's memory limit, or train with --transport tcp"};
}

HostCheck secret() {
  try {
    const auto file = secret_file("0");
    if (::access(path_of_descriptor(::getpid(), file.get()).c_str(), R_OK) == 0)
      return {Level::ok, "secret", "workers can read it through /proc"};
  } catch (const Error& error) {
    return {Level::fail, "secret", error.what(),
            "memfd_create must be allowed: check the container's seccomp profile"};
  }
  return {Level::fail, "secret", "/proc/<pid>/fd cannot be read",
          "mount /proc without hidepid for the user who trains"};
}

HostCheck open_files() {
  rlimit limit = {};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const auto found = fmt::format("{} open files, at most {}", limit.rlim_cur, limit.rlim_max);
  if (limit.rlim_max < 256)
    return {
        Level::fail, "ulimit -n", found,
        "a rank needs about 2 for each other rank, the launcher 4 for each: raise the hard limit"};
  if (limit.rlim_cur < 1024)
    return {Level::warn, "ulimit -n", found,
            "enough for some hundred ranks; `ulimit -n 65536` before more"};
  return {Level::ok, "ulimit -n", found};
}

HostCheck processes() {
  rlimit limit = {};
  ::getrlimit(RLIMIT_NPROC, &limit);
  const auto found = limit.rlim_cur == RLIM_INFINITY
                         ? std::string("no limit of processes")
                         : fmt::format("{} processes and threads", limit.rlim_cur);
  if (limit.rlim_cur >= 1024) return {Level::ok, "ulimit -u", found};
  return {Level::warn, "ulimit -u", found,
          "a rank is a process with a shim and some threads: `ulimit -u 4096`"};
}

HostCheck ptrace_scope() {
  const auto text = first_line_of("/proc/sys/kernel/yama/ptrace_scope");
  if (text.empty() || text == "0")
    return {Level::ok, "ptrace scope",
            text.empty() ? "not restricted" : "0: a debugger may attach to workers"};
  return {Level::warn, "ptrace scope",
          text +
              ": ranks may not read each other's ordinary buffers, which are copied once more "
              "between ranks of a host (gradients and Communicator::allocate are not); gdb cannot "
              "attach to a running worker",
          "as root: sysctl kernel.yama.ptrace_scope=0"};
}

HostCheck unix_sockets() {
  const auto listener = transport::listen_unix(fmt::format("paceline.doctor.{}", ::getpid()));
  if (listener) return {Level::ok, "unix sockets", "abstract names are available"};
  return {Level::fail, "unix sockets", listener.error().what,
          "needed for shared memory: allow AF_UNIX, or train with --transport tcp"};
}

// Nothing for an address that no other host can use.
std::optional<std::string> usable_address(const ifaddrs& one) {
  if (one.ifa_addr == nullptr || (one.ifa_flags & IFF_UP) == 0 ||
      (one.ifa_flags & IFF_LOOPBACK) != 0)
    return std::nullopt;
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (one.ifa_addr->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(one.ifa_addr);
    ::inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
  } else if (one.ifa_addr->sa_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(one.ifa_addr);
    if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) return std::nullopt;
    ::inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
  } else {
    return std::nullopt;
  }
  return fmt::format("{} {}", one.ifa_name, text.data());
}

HostCheck interfaces() {
  ifaddrs* all = nullptr;
  ::getifaddrs(&all);
  std::vector<std::string> others;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next)
    if (auto address = usable_address(*one)) others.push_back(*std::move(address));
  ::freeifaddrs(all);
  if (!others.empty()) return {Level::ok, "interfaces", fmt::format("{}", fmt::join(others, ", "))};
  return {Level::warn, "interfaces", "none but loopback",
          "one host can train; for several, bring an interface up"};
}

HostCheck own_name() {
  const auto name = host_name();
  const auto address = transport::resolve_tcp_address(name + ":0");
  if (!address)
    return {Level::warn, "host name", fmt::format("{} cannot be resolved", name),
            "other launchers name hosts: put it into /etc/hosts"};
  if (transport::is_loopback(address.value())) {
    return {Level::warn, "host name", fmt::format("{} is {}", name, address.value().host),
            "other hosts cannot reach that: for a job over several hosts give it its own address "
            "in /etc/hosts"};
  }
  return {Level::ok, "host name", fmt::format("{} is {}", name, address.value().host)};
}

HostCheck ports() {
  int low = 0, high = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> low >> high;
  const auto found = fmt::format("{} to {}, {} is free", low, high, free_port());
  if (free_port() == 0)
    return {Level::fail, "ports", "no port of 127.0.0.1 is available",
            "bring up the loopback interface: ip link set lo up"};
  if (high - low >= 1000) return {Level::ok, "ports", found};
  return {
      Level::warn, "ports", found,
      "each pair of ranks over TCP takes one: sysctl net.ipv4.ip_local_port_range='32768 60999'"};
}

HostCheck clock_source() {
  const auto source =
      first_line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  const bool fast = source.empty() || source == "tsc" || source == "kvm-clock" ||
                    source == "arch_sys_counter" || source == "hyperv_clocksource_tsc_page";
  const auto found = source.empty() ? "unknown source" : source;
  if (fast) return {Level::ok, "clock", found};
  return {Level::warn, "clock", found + " is slow to read",
          "time stamps cost microseconds: boot with clocksource=tsc if the processor allows it"};
}

HostCheck clock_agreement() {
  timex about = {};
  if (::adjtimex(&about) != TIME_ERROR) return {Level::ok, "time of day", "synchronised"};
  return {Level::warn, "time of day", "not synchronised",
          "no deadline depends on it, but logs of several hosts will not fit together: run chrony "
          "or ntpd"};
}

HostCheck ssh() {
  const char* path = std::getenv("PATH");
  const auto found = find_program("ssh", path == nullptr ? "/usr/bin:/bin" : path);
  if (found) return {Level::ok, "ssh", found.value()};
  return {Level::warn, "ssh", "not installed",
          "only `paceline run --hosts` needs it: apt-get install openssh-client, or use --nnodes"};
}

constexpr const char* kSummed = "two processes have summed 4 MiB over it";

struct Tried {
  int status = -1;   // as waitpid gives it; -1: it could not be started
  std::string told;  // the first line of its output
};

Tried try_out(std::vector<std::string> command) {
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::array<int, 2> ends = {-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {-1, "no pipe can be made"};
  const transport::FileDescriptor from(ends[0]);
  transport::FileDescriptor to(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, to.get(), 1);
  ::posix_spawn_file_actions_adddup2(&actions, to.get(), 2);
  pid_t process = -1;
  const int error =
      ::posix_spawn(&process, arguments[0], &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  to.reset();
  if (error != 0) return {-1, "no process can be started"};
  std::string told;
  std::array<char, 4096> piece;
  for (ssize_t count; (count = ::read(from.get(), piece.data(), piece.size())) > 0;)
    told.append(piece.data(), static_cast<std::size_t>(count));
  int status = 0;
  ::waitpid(process, &status, 0);
  return {status, told.substr(0, told.find('\n'))};
}

Tried try_run(const std::string& transport, const std::string& executable,
              const std::vector<std::string>& worker_arguments) {
  std::vector<std::string> command = {executable,    "run",     "-n",        "2",
                                      "--transport", transport, "--timeout", "10s",
                                      "--no-prefix", "--",      executable};
  command.insert(command.end(), worker_arguments.begin(), worker_arguments.end());
  return try_out(std::move(command));
}

constexpr std::array kChecks = {kernel,       cores,      memory,       shared_memory,   secret,
                                unix_sockets, open_files, processes,    ptrace_scope,    interfaces,
                                own_name,     ports,      clock_source, clock_agreement, ssh};

}  // namespace

std::vector<HostCheck> check_host() {
  std::vector<HostCheck> result;
  for (const auto& check : kChecks) result.push_back(check());
  return result;
}

HostCheck check_transport(const std::string& transport, const std::string& executable,
                          const std::vector<std::string>& worker_arguments) {
  const auto tried = try_run(transport, executable, worker_arguments);
  const std::string name = "transport " + transport;
  if (tried.status == 0) return {Level::ok, name, kSummed};
  if (tried.status < 0) return {Level::fail, name, tried.told, "raise `ulimit -u` and `ulimit -n`"};
  return {Level::fail, name, tried.told,
          transport == "shm"
              ? "train with --transport tcp, and see the lines on shared memory and unix sockets"
              : "a firewall on the loopback interface? Train with --transport shm"};
}

HostCheck check_ucx(const std::string& executable,
                    const std::vector<std::string>& worker_arguments) {
  const std::string name = "transport ucx";
  const auto library = transport::load_fabric("ucx");
  if (!library)
    return {
        Level::warn, name, library.error().what,
        "only RDMA networks need it: scripts/setup, then build again; or take auto, shm or tcp"};
  const std::string version = library.value()->version();
  const auto tried = try_run("ucx", executable, worker_arguments);
  if (tried.status != 0)
    return {Level::warn, name, fmt::format("{}: {}", version, tried.told),
            "UCX_LOG_LEVEL=info tells more; or take auto, shm or tcp"};
  const auto devices = transport::rdma_devices();
  return {Level::ok, name,
          fmt::format("{}: {}; {}", version, kSummed,
                      devices.empty() ? "no RDMA device, so auto does not take it"
                                      : fmt::format("auto takes it between hosts: {}",
                                                    fmt::join(devices, ", ")))};
}

HostCheck check_mpi(const std::string& library, const std::string& executable,
                    const std::vector<std::string>& worker_arguments) {
  const std::string name = "transport mpi", launcher = "mpirun." + library;
  const char* path = std::getenv("PATH");
  const std::string folders = path == nullptr ? "/usr/bin:/bin" : path;
  if (!find_program(launcher, folders))
    return {Level::warn, name, fmt::format("no {}", launcher),
            "only PACELINE_TRANSPORT=mpi needs it: scripts/setup --launchers, then build again"};
  if (free_port() == 0)
    return {Level::warn, name, fmt::format("{} needs the loopback interface", launcher),
            "bring it up: ip link set lo up"};
  std::vector<std::string> command = {"/usr/bin/env",
                                      "PACELINE_TRANSPORT=mpi",
                                      "OMPI_ALLOW_RUN_AS_ROOT=1",
                                      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                                      "timeout",
                                      "20",
                                      launcher};
  if (library == "openmpi") command.emplace_back("--oversubscribe");
  command.insert(command.end(), {"-n", "2", executable});
  command.insert(command.end(), worker_arguments.begin(), worker_arguments.end());
  const auto tried = try_out(std::move(command));
  if (tried.status == 0) return {Level::ok, name, fmt::format("{}: {}", launcher, kSummed)};
  return {Level::warn, name, fmt::format("{}: {}", launcher, tried.told),
          "only PACELINE_TRANSPORT=mpi needs it: scripts/setup --launchers, then build again"};
}

HostCheck check_cuda_devices() {
  const std::string name = "cuda devices";
  auto devices = device::load_devices("cuda");
  if (!devices)
    return {Level::warn, name, devices.error().what,
            "only models and buffers on CUDA devices need them (docs/guide/devices.md)"};
  return {Level::ok, name, devices_text((*devices)->count(), mps_is_running())};
}

HostCheck check_nccl(const std::string& executable,
                     const std::vector<std::string>& worker_arguments) {
  const std::string name = "transport nccl";
  const std::string remedy = "only buffers on CUDA devices need it: else take auto, shm or tcp";
  const auto plugin = collective::load_engine("nccl");
  if (!plugin) return {Level::warn, name, plugin.error().what, remedy};
  if (const std::string why = plugin.value()->obstacle(); !why.empty())
    return {Level::warn, name, why, remedy};
  std::vector<std::string> command = {executable,    "run",  "-n",        "1",
                                      "--transport", "nccl", "--timeout", "20s",
                                      "--no-prefix", "--",   executable};
  command.insert(command.end(), worker_arguments.begin(), worker_arguments.end());
  const auto tried = try_out(std::move(command));
  if (tried.status == 0) return {Level::ok, name, "NCCL has made a communicator"};
  return {Level::warn, name, tried.told, remedy};
}

}  // namespace paceline::launch
