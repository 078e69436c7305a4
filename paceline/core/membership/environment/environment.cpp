#include "paceline/core/membership/environment/environment.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <limits>

#include "paceline/core/membership/environment/device_choices.h"
#include "paceline/core/membership/environment/launchers.h"
#include "paceline/core/membership/environment/node_list.h"
#include "paceline/core/membership/environment/role.h"
#include "paceline/core/membership/environment/variables.h"
#include "paceline/core/membership/handshake/handshake.h"
#include "paceline/core/membership/handshake/member_name.h"
#include "paceline/core/membership/store/exchange.h"

namespace paceline::membership {
namespace {

Result<> take_secret(Result<Secret> secret, Environment& environment) {
  if (!secret) return secret.error();
  environment.secret = *secret;
  return Done{};
}

Failure unreachable_secret(const char* file, std::int64_t fd, const Failure& failure) {
  return {failure.fault,
          fmt::format("the job's secret is neither in {} nor behind descriptor {} ({}): a program "
                      "between the launcher and this one, such as a container, hides the processes "
                      "outside and closes what it inherits; let it hand on descriptor {}, or start "
                      "`paceline run` within it",
                      file, fd, failure.what, fd),
          {}};
}

// Both lead to the same secret. The file, in /proc, survives wrappers that close descriptors; the
// descriptor survives those that change the user or hide processes.
Result<> read_secret(const Variables& variables, Environment& environment) {
  const char* file = variables(variable::kSecretFile);
  const char* descriptor = variables(variable::kSecretFd);
  if (file == nullptr && descriptor == nullptr) {
    return Failure{Fault::misuse,
                   fmt::format("neither {} nor {} is set, so this worker cannot prove that it "
                               "belongs to the job; start it by "
                               "`paceline run`",
                               variable::kSecretFile, variable::kSecretFd),
                   {}};
  }
  if (file != nullptr) {
    auto secret = Secret::from_file(file);
    if (secret || descriptor == nullptr) return take_secret(secret, environment);
  }
  std::int64_t fd = -1;
  if (auto read = read_number(variables, variable::kSecretFd, 0, 1 << 20, fd); !read) return read;
  auto secret = Secret::from_descriptor(static_cast<int>(fd));
  if (secret || file == nullptr) return take_secret(secret, environment);
  return unreachable_secret(file, fd, secret.error());
}

// 30 years; a clock of nanoseconds in 64 bits ends at 292.
constexpr double kLongestMilliseconds = 1e12;

Result<> read_choices(const Variables& variables, Environment& environment) {
  if (const char* text = variables(variable::kTransport)) {
    const std::string_view value = text;
    if (value == "auto") environment.transport = TransportChoice::automatic;
    else if (value == "shm") environment.transport = TransportChoice::shm;
    else if (value == "tcp") environment.transport = TransportChoice::tcp;
    else if (value == "ucx") environment.transport = TransportChoice::ucx;
    else if (value == "mpi" || value == "nccl") environment.engine = value;
    else return senseless(variable::kTransport, value, "auto, shm, tcp, ucx, mpi or nccl");
  }
  if (auto read = read_device_transport(variables, environment); !read) return read;
  if (const auto shared = ranks_per_device(variables); !shared) return shared.error();
  if (const char* text = variables(variable::kDeterminism)) {
    const std::string_view value = text;
    if (value != "reproducible" && value != "fast")
      return senseless(variable::kDeterminism, value, "reproducible or fast");
    environment.reproducible = value == "reproducible";
  }
  if (!environment.engine.empty()) {
    const char* transport = variables(variable::kTransport);
    const bool by_transport = transport != nullptr && transport == environment.engine;
    if (environment.reproducible && variables(variable::kDeterminism) != nullptr)
      return Failure{Fault::misuse,
                     fmt::format("{}={} adds in the library's own order, which {}=reproducible "
                                 "excludes: set it to fast, or take another transport",
                                 by_transport ? variable::kTransport : variable::kDeviceTransport,
                                 environment.engine, variable::kDeterminism),
                     {}};
    environment.reproducible = false;
  }
  for (const auto& [name, time] :
       {std::pair{variable::kOperationTimeout, &environment.operation_timeout},
        std::pair{variable::kStartTimeout, &environment.start_timeout},
        std::pair{variable::kStallTime, &environment.stall_time}}) {
    const char* text = variables(name);
    if (text == nullptr) continue;
    const auto given = parse_duration(text);
    if (!given || given->count() <= 0)
      return senseless(name, text, "a duration such as 90s or 10min");
    *time = *given;
  }
  if (const char* text = variables(variable::kPortRange)) {
    const auto ports = transport::parse_port_range(text);
    if (!ports) return senseless(variable::kPortRange, text, "two ports such as 20000:20100");
    environment.ports = *ports;
  }
  if (const char* text = variables(variable::kLog)) {
    const auto wanted = log_level_of(text);
    if (!wanted) return senseless(variable::kLog, text, "quiet, info or debug");
    environment.log_level = *wanted;
  }
  if (const char* path = variables(variable::kProfile)) environment.profile_file = path;
  if (const char* path = variables(variable::kRecord)) environment.record_file = path;
  return Done{};
}

// The plugin of the MPI library whose launcher started us: the two are not interchangeable.
Result<> choose_engine(const LauncherVariables* names, Environment& environment) {
  if (environment.engine != "mpi") return Done{};
  if (names == nullptr || names->mpi == nullptr) {
    return Failure{Fault::misuse,
                   fmt::format("{}=mpi needs a launcher of MPI, and {} started this process: start "
                               "it by `mpirun -n 4 PROGRAM` (Open MPI or MPICH), or take transport "
                               "auto, shm, tcp or ucx",
                               variable::kTransport, names == nullptr ? "none" : names->launcher),
                   {}};
  }
  environment.engine = fmt::format("mpi_{}", names->mpi);
  return Done{};
}

Result<> read_place(const Variables& variables, const LauncherVariables& names, Environment& e) {
  std::int64_t generation = 1, restarts = 0;
  for (const auto& read : {
           read_int(variables, names.world_size, 1, kMostRanks, e.world_size),
           read_int(variables, names.rank, 0, kMostRanks, e.rank),
           read_int(variables, names.local_world_size, 1, kMostRanks, e.local_world_size),
           read_int(variables, names.local_rank, 0, kMostRanks, e.local_rank),
           read_int(variables, names.node_rank, 0, kMostRanks, e.node_rank),
           read_number(variables, variable::kGeneration, 1,
                       std::numeric_limits<std::int64_t>::max(), generation),
           read_number(variables, names.restarts, 0, kMostRanks, restarts),
       }) {
    if (!read) return read;
  }
  e.launcher = names.launcher;
  if (names.rank != std::string_view(variable::kRank))
    e.place_variables =
        fmt::format("{}={} {}={}", names.rank, e.rank, names.world_size, e.world_size);
  e.generation = static_cast<std::uint64_t>(generation + restarts);
  if (e.rank >= e.world_size) {
    return senseless(names.rank, std::to_string(e.rank),
                     fmt::format("below {}={}", names.world_size, e.world_size));
  }
  return Done{};
}

Result<> read_tasks_of_node(const Variables& variables, const LauncherVariables& names,
                            Environment& e) {
  const char* text = names.tasks_per_node == nullptr ? nullptr : variables(names.tasks_per_node);
  if (text == nullptr) return Done{};
  const auto tasks = parse_tasks_per_node(text);
  if (!tasks) return tasks.error();
  const auto node = static_cast<std::size_t>(e.node_rank);
  if (node < tasks.value().size()) e.local_world_size = tasks.value()[node];
  return Done{};
}

std::string fingerprint_text(const std::string& identity) {
  return fmt::format("{:016x}", job_fingerprint(identity));
}

// A name that no other job has, made from values that the launcher gives all its processes. MPICH's
// launcher gives no name: on one host the process that started the ranks serves as one, between
// hosts its key-value space.
Result<std::string> read_identity(const Variables& variables, const LauncherVariables& names,
                                  const Environment& e) {
  std::string identity = names.launcher;
  bool unique = false;
  for (const char* name : names.identity) {
    const char* text = variables(name);
    unique = unique || text != nullptr;
    identity += fmt::format("/{}", text == nullptr ? "" : text);
  }
  if (!unique && e.meeting.kind == Meeting::Kind::pmi && e.secret &&
      e.local_world_size < e.world_size) {
    auto space = pmi_space_name(e.meeting.pmi);
    if (!space) return space;
    identity += *space;
  } else if (!unique) {
    identity += process_that_started(names.rank);
  }
  return fingerprint_text(identity);
}

Result<> read_given_secret(const Variables& variables, Environment& environment) {
  const bool given =
      variables(variable::kSecretFile) != nullptr || variables(variable::kSecretFd) != nullptr;
  return given ? read_secret(variables, environment) : Result<>(Done{});
}

Result<Environment> read_foreign(const Variables& variables, const LauncherVariables& names,
                                 Environment e) {
  if (auto read = read_tasks_of_node(variables, names, e); !read) return read.error();
  auto meeting = find_meeting(variables);
  if (!meeting) return meeting.error();
  e.meeting = *meeting;
  if (auto read = read_given_secret(variables, e); !read) return read.error();
  if (e.engine.starts_with("mpi") && meeting->kind == Meeting::Kind::pmi && e.secret &&
      e.local_world_size < e.world_size) {
    return Failure{Fault::misuse,
                   fmt::format("MPI cannot begin after the ranks have met through PMI: set "
                               "{}=host:port, an address of rank 0's host",
                               variable::kStore),
                   {}};
  }
  auto identity = read_identity(variables, names, e);
  if (!identity) return identity.error();
  e.job = *identity;
  return e;
}

Result<Environment> read_tf_config(const Variables& variables, Environment e) {
  auto place = parse_tf_config(variables("TF_CONFIG"));
  if (!place) return place.error();
  e.launcher = "TF_CONFIG";
  e.place_variables = "TF_CONFIG";
  e.rank = place->rank;
  e.world_size = place->world_size;
  e.local_rank = place->local_rank;
  e.local_world_size = place->local_world_size;
  e.node_rank = place->node_rank;
  e.servers = place->servers;
  e.server_index = place->server_index;
  if (e.members() == 1) return e;
  e.job = fingerprint_text("TF_CONFIG/" + place->identity);
  const char* store = variables(variable::kStore);
  e.meeting = {.kind = Meeting::Kind::address,
               .address = store != nullptr ? store : place->first,
               .spans_hosts = place->spans_hosts};
  if (auto read = read_given_secret(variables, e); !read) return read.error();
  return e;
}

// A member of a job that our launcher started.
Result<Environment> read_ours(const Variables& variables, Environment e) {
  if (const char* job = variables(variable::kJob)) e.job = job;
  const char* store = variables(variable::kStore);
  if (e.members() == 1 && store == nullptr) return e;
  if (store == nullptr) {
    return Failure{Fault::misuse,
                   fmt::format("{} is not set, so {} cannot find the other {} {}; start "
                               "workers by `paceline run`",
                               variable::kStore, member_name(e.member(), e.world_size),
                               e.members() - 1, e.servers > 0 ? "ranks and servers" : "ranks"),
                   {}};
  }
  e.store = store;
  if (auto read = read_secret(variables, e); !read) return read.error();
  return e;
}

}  // namespace

std::string left_over(const Environment& e) {
  if (e.place_variables.empty()) return {};
  const bool several = e.place_variables.find(' ') != std::string::npos;
  return fmt::format(
      "; if this process was started alone, {} in its environment {} left over from {}: unset {}",
      e.place_variables, several ? "are" : "is", e.launcher, several ? "them" : "it");
}

std::string start_limit(const Environment& e) {
  return fmt::format(" within {:.4g} s ({}, `paceline run --start-timeout`)",
                     std::chrono::duration<double>(e.start_timeout).count(),
                     variable::kStartTimeout);
}

std::optional<std::chrono::milliseconds> parse_duration(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  const std::string_view unit(end, text.data() + text.size());
  double milliseconds = 0;
  if (unit.empty() || unit == "s") milliseconds = 1e3;
  else if (unit == "ms") milliseconds = 1;
  else if (unit == "min" || unit == "m") milliseconds = 60e3;
  else if (unit == "h") milliseconds = 3600e3;
  else return std::nullopt;
  const double total = number * milliseconds;
  if (!(total <= kLongestMilliseconds)) return std::nullopt;
  return std::chrono::milliseconds(static_cast<std::int64_t>(total));
}

Result<Environment> read_environment(const Variables& variables) {
  Environment environment;
  if (auto read = read_choices(variables, environment); !read) return read.error();
  const LauncherVariables* names = recognise(variables);
  if (auto read = read_role(variables, names, environment); !read) return read.error();
  if (auto chosen = choose_engine(names, environment); !chosen) return chosen.error();
  if (environment.is_server()) return read_ours(variables, environment);
  const char* rank = variables(variable::kRank);
  const char* world_size = variables(variable::kWorldSize);
  if ((rank == nullptr) != (world_size == nullptr)) {
    const char* set = rank != nullptr ? variable::kRank : variable::kWorldSize;
    const char* missing = rank != nullptr ? variable::kWorldSize : variable::kRank;
    return Failure{
        Fault::misuse,
        fmt::format("{} is set but {} is not; start workers by `paceline run`, which sets both",
                    set, missing),
        {}};
  }
  if (names == nullptr)
    return variables("TF_CONFIG") != nullptr ? read_tf_config(variables, environment) : environment;
  if (auto read = read_place(variables, *names, environment); !read) return read.error();
  if (rank != nullptr) return read_ours(variables, environment);
  return environment.world_size == 1 ? environment : read_foreign(variables, *names, environment);
}

Result<Environment> read_environment() {
  return read_environment([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace paceline::membership
