#include "paceline/core/membership/environment/launchers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

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

}  // namespace paceline::membership
