// Manifests of containers have this in common: how words are escaped, and how long and how often
// containers run.
#pragma once

#include <string>

#include "paceline/app/launch/emit/run_plan.h"
#include "paceline/app/launch/emit/yaml.h"

namespace paceline::launch {

// 0400: the owner alone may read. YAML's readers disagree about octal numbers.
constexpr int kSecretMode = 256;

// The text as Kubernetes and Compose must be given it: both replace $(NAME) or $NAME, and both take
// "$$" for "$".
std::string without_dollars(const std::string& text);

// The words of a node's `paceline run` and the command behind them, as a list.
Json launch_command(const RunPlan& plan, const NodePlace& place);

// How long a container gets to end after SIGTERM: a little longer than the workers have to save.
std::chrono::seconds termination_grace(const RunPlan& plan);

// How often containers are started again, all nodes together.
int container_restarts(const RunPlan& plan);

// The name of the secret that all containers of the run share.
std::string secret_name(const RunPlan& plan);

// --- what Kubernetes' kinds of jobs share ---

// The file that holds the run's secret in a pod.
std::string secret_in_pod();

// The "image", "command" and "env" of a container that runs these words.
Json container(const RunPlan& plan, Json words);

// The CUDA devices of a node, as "limits"; nothing is asked for where the plan has none.
void ask_for_devices(const RunPlan& plan, const char* member, Json& to);

// Mounts the volume and the secret in the container, where the plan has them.
void mount_volumes(const RunPlan& plan, Json& container);

// The "spec" of a pod with this container: the volumes that it mounts, and the time to end.
Json pod(const RunPlan& plan, Json container);

// {"apiVersion": ..., "kind": ..., "metadata": {"name": ...}, "spec": ...}
Json object(const RunPlan& plan, const char* version, const char* kind, Json spec);

// The comment above the objects: how to start them, and what must exist before.
std::string heading(const RunPlan& plan, const std::string& target);

}  // namespace paceline::launch
