// An MPIJob of Kubeflow's training operator: Open MPI's mpirun starts the ranks, and Paceline reads
// its variables. Rank 0 tells its address through none of them, so the launcher asks for it.
#include <fmt/format.h>

#include "paceline/app/launch/emit/containers.h"
#include "paceline/app/launch/emit/run_plan.h"
#include "paceline/core/membership/environment/variables.h"

namespace paceline::launch {
namespace {

namespace variable = membership::variable;

// The first slot, rank 0's, is on the first worker: it tells its address before the run starts.
std::string script(const RunPlan& plan) {
  const std::string limit =
      plan.timeout ? fmt::format(" --timeout {}", plan.timeout->count()) : std::string();
  const int ranks = plan.nodes * plan.processes;
  if (plan.nodes == 1)
    return fmt::format("exec mpirun --allow-run-as-root{} -n {} \"$@\"", limit, ranks);
  return fmt::format(
      "address=$(mpirun --allow-run-as-root -n 1 hostname -i) && exec mpirun --allow-run-as-root{} "
      "-n {} -x {}=\"${{address%% *}}:29400\" \"$@\"",
      limit, ranks, variable::kStore);
}

Json launcher(const RunPlan& plan) {
  Json words = {"sh", "-c", without_dollars(script(plan)), "mpirun"};
  for (const std::string& word : plan.command) words.push_back(without_dollars(word));
  Json node = {{"name", "mpi"}};
  node.update({{"image", plan.image}, {"command", std::move(words)}});
  const Json spec = {{"terminationGracePeriodSeconds", termination_grace(plan).count()},
                     {"containers", Json::array({std::move(node)})}};
  return {{"replicas", 1},
          {"restartPolicy", plan.max_restarts > 0 ? "OnFailure" : "Never"},
          {"template", {{"spec", spec}}}};
}

// The operator has the workers' containers wait; mpirun starts the ranks in them, and these have
// the containers' variables.
Json workers(RunPlan plan) {
  if (plan.nodes > 1)
    plan.environment.push_back(fmt::format("{}={}", variable::kSecretFile, secret_in_pod()));
  Json node = {{"name", "mpi"}};
  node.update(container(plan, Json()));
  node.erase("command");
  ask_for_devices(plan, "resources", node);
  mount_volumes(plan, node);
  return {{"replicas", plan.nodes},
          {"restartPolicy", "Never"},
          {"template", {{"spec", pod(plan, std::move(node))}}}};
}

std::string write_mpijob(const RunPlan& plan) {
  Json spec = {{"slotsPerWorker", plan.processes},
               {"runPolicy", {{"cleanPodPolicy", "Running"}, {"backoffLimit", plan.max_restarts}}},
               {"mpiReplicaSpecs", {{"Launcher", launcher(plan)}, {"Worker", workers(plan)}}}};
  return heading(plan, "mpijob") + yaml(object(plan, "kubeflow.org/v1", "MPIJob", std::move(spec)));
}

}  // namespace

Target mpijob() {
  return {.name = "mpijob",
          .about = "an MPIJob, for Kubeflow's training operator: Open MPI starts the ranks",
          .own_launcher = false,
          .own_volumes = false,
          .write = write_mpijob};
}

}  // namespace paceline::launch
