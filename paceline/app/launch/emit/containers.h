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

}  // namespace paceline::launch
