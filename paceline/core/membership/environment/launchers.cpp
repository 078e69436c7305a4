#include "paceline/core/membership/environment/launchers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "paceline/core/membership/environment/node_list.h"
#include "paceline/core/membership/environment/variables.h"

namespace paceline::membership {
namespace {

std::string_view text(const Variables& variables, const char* name) {
  const char* value = name == nullptr ? nullptr : variables(name);
  return value == nullptr ? std::string_view() : value;
}

std::string agent_address(const Variables& variables) {
  return fmt::format("{}:{}", text(variables, "MASTER_ADDR"), text(variables, "MASTER_PORT"));
}

// The first node of the step, and a port that two jobs of one host seldom share.
unsigned number_of(std::string_view digits) {
  unsigned value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

Result<std::string> slurm_address(const Variables& variables) {
  const auto nodes = parse_node_list(text(variables, "SLURM_STEP_NODELIST"));
  if (!nodes) return nodes.error();
  // Two steps of one allocation may run at the same time.
  const unsigned job = number_of(text(variables, "SLURM_JOB_ID"));
  const unsigned step = number_of(text(variables, "SLURM_STEP_ID"));
  return fmt::format("{}:{}", nodes.value().front(), 20000 + (job + 7919 * step) % 20000);
}

int number(std::string_view digits) {
  int value = -1;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

struct Stat {
  int parent = 0;
  std::string started;
};

// The 4th and the 22nd field of /proc/<pid>/stat; the 2nd may hold blanks, and ends with the last
// ')'.
Stat stat_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  Stat stat;
  std::string field;
  fields >> field >> stat.parent;
  for (int number = 5; number <= 22; ++number) fields >> stat.started;
  return stat;
}

bool has_variable(int pid, const std::string& name) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid), std::ios::binary);
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (entry.starts_with(name + "=")) return true;
  }
  return false;
}

using nlohmann::json;

Failure wrong(std::string_view what) {
  return {Fault::misuse,
          fmt::format("TF_CONFIG: {}; it looks like {{\"cluster\": {{\"worker\": [\"a:2222\", "
                      "\"b:2222\"]}}, \"task\": {{\"type\": "
                      "\"worker\", \"index\": 0}}}}",
                      what),
          {}};
}

bool is_address(const json& value) {
  if (!value.is_string()) return false;
  const auto& text = value.get_ref<const std::string&>();
  const auto colon = text.rfind(':');
  return colon != std::string::npos && colon > 0 && colon + 1 < text.size() &&
         text.size() - colon <= 6 &&
         std::all_of(text.begin() + static_cast<std::ptrdiff_t>(colon) + 1, text.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

std::string host_of(const std::string& address) {
  return address.substr(0, address.rfind(':'));
}

Result<> check_cluster(const json& cluster) {
  if (!cluster.is_object() || cluster.empty())
    return wrong("\"cluster\" is missing or names nobody");
  for (const auto& [type, addresses] : cluster.items()) {
    if (!addresses.is_array())
      return wrong(fmt::format("\"cluster\".\"{}\" is no list of addresses", type));
    for (const json& address : addresses) {
      if (!is_address(address))
        return wrong(fmt::format("{} under \"{}\" is not \"host:port\"", address.dump(), type));
    }
  }
  return Done{};
}

}  // namespace

const std::vector<LauncherVariables>& launchers() {
  static const std::vector<LauncherVariables> table = {
      {.launcher = "paceline run",
       .rank = variable::kRank,
       .world_size = variable::kWorldSize,
       .local_rank = variable::kLocalRank,
       .local_world_size = variable::kLocalWorldSize,
       .node_rank = variable::kNodeRank,
       .signs = {variable::kRank, variable::kWorldSize},
       .identity = {variable::kJob}},
      {.launcher = "torchrun",
       .rank = "RANK",
       .world_size = "WORLD_SIZE",
       .local_rank = "LOCAL_RANK",
       .local_world_size = "LOCAL_WORLD_SIZE",
       .node_rank = "GROUP_RANK",
       .restarts = "TORCHELASTIC_RESTART_COUNT",
       .signs = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"},
       .identity = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
                    "TORCHELASTIC_RESTART_COUNT"}},
      // Its NODE_RANK is the rank within the node, not the node's.
      {.launcher = "Open MPI's mpirun",
       .rank = "OMPI_COMM_WORLD_RANK",
       .world_size = "OMPI_COMM_WORLD_SIZE",
       .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
       .local_world_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
       .mpi = "openmpi",
       .signs = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
       .identity = {"PMIX_NAMESPACE", "OMPI_MCA_orte_hnp_uri"}},
      {.launcher = "mpiexec (PMI)",
       .rank = "PMI_RANK",
       .world_size = "PMI_SIZE",
       .local_rank = "MPI_LOCALRANKID",
       .local_world_size = "MPI_LOCALNRANKS",
       .mpi = "mpich",
       .signs = {"PMI_RANK", "PMI_SIZE"},
       .identity = {"PMI_JOBID", "SLURM_JOB_ID", "SLURM_STEP_ID"}},
      // Inside salloc and batch scripts most of these are set too, but no step.
      {.launcher = "srun",
       .rank = "SLURM_PROCID",
       .world_size = "SLURM_NTASKS",
       .local_rank = "SLURM_LOCALID",
       .node_rank = "SLURM_NODEID",
       .restarts = "SLURM_RESTART_COUNT",
       .tasks_per_node = "SLURM_STEP_TASKS_PER_NODE",
       .signs = {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"},
       .identity = {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
  };
  return table;
}

const LauncherVariables* recognise(const Variables& variables) {
  for (const LauncherVariables& row : launchers()) {
    const auto is_set = [&](const char* name) { return variables(name) != nullptr; };
    if (std::ranges::all_of(row.signs, is_set)) return &row;
  }
  return nullptr;
}

Result<Meeting> find_meeting(const Variables& variables) {
  if (const auto store = text(variables, variable::kStore); !store.empty()) {
    return Meeting{.kind = Meeting::Kind::address, .address = std::string(store)};
  }
  if (!text(variables, "MASTER_ADDR").empty()) {
    // The port belongs to the agent's own store then; rank 0 cannot listen there.
    const bool agents = text(variables, "TORCHELASTIC_USE_AGENT_STORE") == "True";
    return Meeting{.kind = agents ? Meeting::Kind::agent_store : Meeting::Kind::address,
                   .address = agent_address(variables)};
  }
  if (!text(variables, "SLURM_STEP_NODELIST").empty()) {
    auto address = slurm_address(variables);
    if (!address) return address.error();
    return Meeting{.kind = Meeting::Kind::address, .address = *address};
  }
  if (!text(variables, "PMI_FD").empty())
    return Meeting{.kind = Meeting::Kind::pmi, .pmi = number(text(variables, "PMI_FD"))};
  return Meeting{.kind = Meeting::Kind::this_host};
}

std::string process_that_started(const std::string& variable) {
  int pid = ::getppid();
  while (pid > 1 && has_variable(pid, variable)) pid = stat_of(pid).parent;
  return pid > 0 ? fmt::format("{}/{}", pid, stat_of(pid).started) : std::string();
}

Result<TfPlace> parse_tf_config(std::string_view text) {
  const json config = json::parse(text, nullptr, false);
  if (config.is_discarded()) return wrong("it is no JSON");
  if (!config.is_object()) return wrong("it is no object");
  const json cluster = config.value("cluster", json()), task = config.value("task", json());
  if (auto checked = check_cluster(cluster); !checked) return checked.error();
  if (!task.is_object() || !task.contains("type") || !task["type"].is_string())
    return wrong("\"task\" has no \"type\"");
  const std::string type = task["type"];
  if (!task.contains("index") || !task["index"].is_number_integer())
    return wrong("\"task\" has no \"index\", a whole number");
  const auto index = task["index"].get<std::int64_t>();
  const json mates = cluster.value(type, json::array());
  if (type == "evaluator") return TfPlace{};  // often it is not in the cluster at all
  if (index < 0 || index >= static_cast<std::int64_t>(mates.size())) {
    return wrong(fmt::format("the task is {} {}, but the cluster has {} of that type", type, index,
                             mates.size()));
  }

  TfPlace place{.rank = -1, .local_world_size = 0, .first = {}, .identity = cluster.dump()};
  std::vector<std::string> addresses, hosts;
  for (const char* trains : {"chief", "master", "worker"}) {
    if (type == trains) place.rank = static_cast<int>(addresses.size()) + static_cast<int>(index);
    for (const json& address : cluster.value(trains, json::array())) addresses.push_back(address);
  }
  if (type == "ps") place.server_index = static_cast<int>(index);
  if (place.rank < 0 && place.server_index < 0)
    return wrong(
        fmt::format("the task's type is \"{}\"; it is chief, worker, ps or evaluator", type));
  if (addresses.empty()) return wrong("\"cluster\" has servers, and no chief or worker for them");
  place.world_size = static_cast<int>(addresses.size());
  const std::string own = host_of(mates[static_cast<std::size_t>(index)]);
  const json servers = cluster.value("ps", json::array());
  place.servers = static_cast<int>(servers.size());
  const auto is_elsewhere = [&](const std::string& address) { return host_of(address) != own; };
  place.spans_hosts =
      std::ranges::any_of(addresses, is_elsewhere) ||
      std::ranges::any_of(servers, [&](const json& one) { return is_elsewhere(one); });
  for (int rank = 0; rank < place.world_size; ++rank) {
    const std::string host = host_of(addresses[static_cast<std::size_t>(rank)]);
    if (host == own && rank < place.rank) ++place.local_rank;
    if (host == own) ++place.local_world_size;
    if (std::ranges::find(hosts, host) == hosts.end()) hosts.push_back(host);
  }
  place.node_rank = static_cast<int>(std::ranges::find(hosts, own) - hosts.begin());
  place.first = addresses.front();
  return place;
}

}  // namespace paceline::membership
