// A PyTorchJob of Kubeflow's training operator: a pod for each node, the first is the master.
#include "paceline/app/launch/emit/containers.h"
#include "paceline/app/launch/emit/run_plan.h"

namespace paceline::launch {
namespace {

// ExitCode replaces a pod that a signal ended, or that was told to stop and has saved (143), and no
// other: `paceline run` has started failed ranks again by itself.
Json replicas(const RunPlan& plan, int count) {
  Json node = {{"name", "pytorch"}};
  node.update(container(plan, launch_command(plan, {.node_rank = "$(RANK)",
                                                    .endpoint = "$(MASTER_ADDR):$(MASTER_PORT)",
                                                    .id = plan.name,
                                                    .secret_file = secret_in_pod()})));
  ask_for_devices(plan, "resources", node);
  mount_volumes(plan, node);
  return {{"replicas", count},
          {"restartPolicy", plan.max_restarts > 0 ? "ExitCode" : "Never"},
          {"template", {{"spec", pod(plan, std::move(node))}}}};
}

std::string write_pytorchjob(const RunPlan& plan) {
  Json specs = {{"Master", replicas(plan, 1)}};
  if (plan.nodes > 1) specs["Worker"] = replicas(plan, plan.nodes - 1);
  Json spec = {{"nprocPerNode", std::to_string(plan.processes)},
               {"runPolicy", {{"backoffLimit", container_restarts(plan)}}},
               {"pytorchReplicaSpecs", std::move(specs)}};
  return heading(plan, "pytorchjob") +
         yaml(object(plan, "kubeflow.org/v1", "PyTorchJob", std::move(spec)));
}

}  // namespace

Target pytorchjob() {
  return {.name = "pytorchjob",
          .about = "a PyTorchJob, for Kubeflow's training operator",
          .own_volumes = false,
          .write = write_pytorchjob};
}

}  // namespace paceline::launch
