// A TrainJob of Kubeflow Trainer, and the TrainingRuntime that it runs on: this one gives its pods
// the secret, the volume, the time to save and their restarts.
#include "paceline/app/launch/emit/containers.h"
#include "paceline/app/launch/emit/run_plan.h"

namespace paceline::launch {
namespace {

constexpr const char* kVersion = "trainer.kubeflow.org/v1alpha1";

// A pod that fails is replaced, except after what another start would meet again: wrong usage, a
// secret that differs, --timeout.
Json job_spec(const RunPlan& plan) {
  Json node = {{"name", "node"}};
  mount_volumes(plan, node);
  Json spec = pod(plan, std::move(node));
  spec["restartPolicy"] = "Never";
  const Json rule = {
      {"action", "FailJob"},
      {"onExitCodes", {{"containerName", "node"}, {"operator", "In"}, {"values", {2, 4, 124}}}}};
  return {{"backoffLimit", container_restarts(plan)},
          {"podFailurePolicy", {{"rules", Json::array({rule})}}},
          {"template", {{"spec", std::move(spec)}}}};
}

Json runtime_spec(const RunPlan& plan) {
  const Json trainer = {
      {"name", "node"},
      {"template",
       {{"metadata", {{"labels", {{"trainer.kubeflow.org/trainjob-ancestor-step", "trainer"}}}}},
        {"spec", job_spec(plan)}}}};
  return {{"mlPolicy", {{"numNodes", plan.nodes}, {"torch", Json::object()}}},
          {"template", {{"spec", {{"replicatedJobs", Json::array({trainer})}}}}}};
}

// Trainer sets PET_NODE_RANK, PET_MASTER_ADDR and PET_MASTER_PORT in each pod.
Json job(const RunPlan& plan) {
  Json trainer =
      container(plan, launch_command(plan, {.node_rank = "$(PET_NODE_RANK)",
                                            .endpoint = "$(PET_MASTER_ADDR):$(PET_MASTER_PORT)",
                                            .id = plan.name,
                                            .secret_file = secret_in_pod()}));
  trainer["numNodes"] = plan.nodes;
  trainer["numProcPerNode"] = plan.processes;
  ask_for_devices(plan, "resourcesPerNode", trainer);
  return {
      {"runtimeRef",
       {{"apiGroup", "trainer.kubeflow.org"}, {"kind", "TrainingRuntime"}, {"name", plan.name}}},
      {"trainer", std::move(trainer)}};
}

std::string write_trainjob(const RunPlan& plan) {
  return heading(plan, "k8s-trainjob") +
         yaml(object(plan, kVersion, "TrainingRuntime", runtime_spec(plan))) + "---\n" +
         yaml(object(plan, kVersion, "TrainJob", job(plan)));
}

}  // namespace

Target k8s_trainjob() {
  return {.name = "k8s-trainjob",
          .about = "a TrainJob with its TrainingRuntime, for Kubeflow Trainer",
          .own_volumes = false,
          .write = write_trainjob};
}

}  // namespace paceline::launch
