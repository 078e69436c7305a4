#include "paceline/app/launch/process/environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "paceline/app/launch/process/visible_devices.h"
#include "paceline/core/membership/environment/variables.h"

namespace paceline::launch {
namespace {

namespace variable = membership::variable;

// The variables that say who a process is. Variables that say how it works (PACELINE_TRANSPORT and
// the like) pass through.
constexpr std::array kNames = {
    std::string_view(variable::kRank), std::string_view(variable::kWorldSize),
    std::string_view(variable::kLocalRank), std::string_view(variable::kLocalWorldSize),
    std::string_view(variable::kNodeRank), std::string_view(variable::kJob),
    std::string_view(variable::kGeneration), std::string_view(variable::kStore),
    std::string_view(variable::kSecretFd), std::string_view(variable::kSecretFile),
    std::string_view(variable::kRole), std::string_view(variable::kServers),
    std::string_view(variable::kServerIndex), std::string_view(variable::kReplicas),
    std::string_view(variable::kRanksPerDevice),
    // torchrun
    std::string_view("RANK"), std::string_view("WORLD_SIZE"), std::string_view("LOCAL_RANK"),
    std::string_view("LOCAL_WORLD_SIZE"), std::string_view("GROUP_RANK"),
    std::string_view("GROUP_WORLD_SIZE"), std::string_view("ROLE_RANK"),
    std::string_view("ROLE_WORLD_SIZE"), std::string_view("ROLE_NAME"),
    std::string_view("MASTER_ADDR"), std::string_view("MASTER_PORT"),
    // mpirun of Intel and MPICH; srun; TensorFlow
    std::string_view("MPI_LOCALRANKID"), std::string_view("MPI_LOCALNRANKS"),
    std::string_view("SLURM_PROCID"), std::string_view("SLURM_LOCALID"),
    std::string_view("SLURM_NODEID"), std::string_view("SLURM_NTASKS"),
    std::string_view("SLURM_NPROCS"), std::string_view("SLURM_TASK_PID"),
    std::string_view("SLURM_GTIDS"), std::string_view("TF_CONFIG")};

constexpr std::array kPrefixes = {
    std::string_view("PACELINE_RUN_"),   std::string_view("PET_"),
    std::string_view("TORCHELASTIC_"),   std::string_view("OMPI_COMM_WORLD_"),
    std::string_view("MV2_COMM_WORLD_"), std::string_view("PMI_"),
    std::string_view("PMIX_"),           std::string_view("PMI2_"),
    std::string_view("SLURM_STEP_")};

std::string_view name_in(std::string_view entry) {
  return entry.substr(0, entry.find('='));
}

class Builder {
 public:
  explicit Builder(const Environment& inherited) {
    std::copy_if(inherited.begin(), inherited.end(), std::back_inserter(result_),
                 [](const std::string& entry) { return !is_a_launchers(name_in(entry)); });
  }

  template <typename T>
  Builder& set(std::string_view name, const T& value) {
    std::erase_if(result_, [name](const std::string& entry) { return name_in(entry) == name; });
    result_.push_back(fmt::format("{}={}", name, value));
    return *this;
  }

  Builder& set_if_any(std::string_view name, const std::string& value) {
    return value.empty() ? *this : set(name, value);
  }

  std::string_view value(std::string_view name) const { return value_of(result_, name); }
  bool has(std::string_view name) const { return !value(name).empty(); }
  Environment take() { return std::move(result_); }

 private:
  Environment result_;
};

void set_place(Builder& to, const JobVariables& job, const ProcessPlace& place) {
  to.set(variable::kRole, place.server ? "server" : "worker");
  if (job.servers > 0) to.set(variable::kServers, job.servers);
  if (job.replicas > 1) to.set(variable::kReplicas, job.replicas);
  if (place.server) {
    to.set(variable::kServerIndex, *place.server);
    return;
  }
  to.set(variable::kRank, place.rank);
  to.set(variable::kLocalRank, place.local_rank);
  to.set(variable::kLocalWorldSize, place.local_world_size);
}

void set_ours(Builder& to, const JobVariables& job, const ProcessPlace& place) {
  set_place(to, job, place);
  to.set(variable::kWorldSize, job.world_size);
  to.set(variable::kNodeRank, place.node_rank).set(variable::kGeneration, job.generation);
  to.set(variable::kJob, job.job).set(variable::kStore, job.store);
  to.set_if_any(variable::kTransport, job.transport)
      .set_if_any(variable::kDeviceTransport, job.device_transport)
      .set_if_any(variable::kDeterminism, job.determinism);
  to.set_if_any(variable::kOperationTimeout, job.operation_timeout);
  to.set_if_any(variable::kStartTimeout, job.start_timeout);
  to.set_if_any(variable::kPortRange, job.port_range);
  if (!to.has(variable::kTransport)) to.set(variable::kTransport, "auto");
  const bool by_nccl = to.value(variable::kTransport) == "nccl" ||
                       to.value(variable::kDeviceTransport) == "nccl";  // it sums in its own order
  if (!to.has(variable::kDeterminism))
    to.set(variable::kDeterminism, by_nccl ? "fast" : "reproducible");
}

void set_devices(Builder& to, const Environment& inherited, const JobVariables& job) {
  if (!job.devices.empty())
    to.set(kVisibleDevices, visible_devices(job.devices, inherited).value());
  if (job.ranks_per_device > 0) to.set(variable::kRanksPerDevice, job.ranks_per_device);
}

void set_torchruns(Builder& to, const JobVariables& job, const ProcessPlace& place) {
  to.set("RANK", place.rank).set("WORLD_SIZE", job.world_size);
  to.set("LOCAL_RANK", place.local_rank).set("LOCAL_WORLD_SIZE", place.local_world_size);
  to.set("GROUP_RANK", place.node_rank).set("GROUP_WORLD_SIZE", place.nodes);
  to.set("ROLE_RANK", place.rank)
      .set("ROLE_WORLD_SIZE", job.world_size)
      .set("ROLE_NAME", "default");
  to.set("MASTER_ADDR", job.master_address).set("MASTER_PORT", job.master_port);
  to.set("TORCHELASTIC_RUN_ID", job.job)
      .set("TORCHELASTIC_RESTART_COUNT", job.generation - 1)
      .set("TORCHELASTIC_MAX_RESTARTS", job.max_restarts);
}

// Training allocates and frees the same tensors in every step. By default glibc returns large ones
// to the system, which clears each page again
// (docs/decisions/0009-workers-keep-freed-memory.md).
constexpr std::string_view kKeepMemory =
    "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=33554432:"
    "glibc.malloc.trim_threshold=8589934592";

}  // namespace

bool is_memory_policy(std::string_view name) {
  return name == "GLIBC_TUNABLES" || name.starts_with("MALLOC_");
}

bool is_a_launchers(std::string_view name) {
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

Environment worker_environment(const Environment& inherited, const JobVariables& job,
                               const ProcessPlace& place) {
  Builder result(inherited);
  set_ours(result, job, place);
  if (!place.server) {
    set_devices(result, inherited, job);
    set_torchruns(result, job, place);
  }
  if (!result.has("OMP_NUM_THREADS")) {
    const int share = job.usable_cores / place.local_world_size, own = place.processors.count();
    result.set("OMP_NUM_THREADS", std::max(1, own > 0 ? std::min(share, own) : share));
  }
  const bool python_is_told =  // also by an empty value: it writes with a buffer then
      std::ranges::find(inherited, "PYTHONUNBUFFERED", name_in) != inherited.end();
  if (!python_is_told) result.set("PYTHONUNBUFFERED", 1);
  const bool decided = std::ranges::any_of(
      inherited, [](const std::string& entry) { return is_memory_policy(name_in(entry)); });
  if (!decided) result.set("GLIBC_TUNABLES", kKeepMemory);
  return result.take();
}

void set_variable(Environment& environment, const std::string& entry) {
  std::erase_if(environment,
                [&](const std::string& old) { return name_in(old) == name_in(entry); });
  environment.push_back(entry);
}

Environment own_environment() {
  Environment result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    result.emplace_back(*entry);
  return result;
}

Environment settings_in(const Environment& environment) {
  Environment settings;
  std::ranges::copy_if(environment, std::back_inserter(settings), [](const std::string& entry) {
    const auto name = name_in(entry);
    const bool ours = name.starts_with("PACELINE_") && !is_a_launchers(name);
    return ours || name == "OMP_NUM_THREADS" || is_memory_policy(name);
  });
  return settings;
}

std::string_view value_of(const Environment& environment, std::string_view name) {
  for (const std::string& entry : environment) {
    if (name_in(entry) == name && entry.size() > name.size())
      return std::string_view(entry).substr(name.size() + 1);
  }
  return {};
}

}  // namespace paceline::launch
