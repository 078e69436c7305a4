// The parts of Kubernetes' objects that its kinds of jobs share: containers, volumes, the secret.
#pragma once

#include <string>

#include "paceline/app/launch/emit/containers.h"

namespace paceline::launch {

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
