// The systems whose manifests `paceline run --emit` writes, as a table. Each file of this folder
// that is called like a target defines its entry.
#pragma once

#include <string>
#include <vector>

#include "paceline/app/launch/emit/run_plan.h"

namespace paceline::launch {

struct Target {
  const char* name;           // as in --emit
  const char* about;          // what the manifest is, and who reads it
  bool in_containers = true;  // starts an image, and mounts the plan's volume
  bool own_launcher = true;   // `paceline run` starts the ranks of each node; else mpirun does
  bool own_volumes = true;    // a volume may be a folder of the host
  std::string (*write)(const RunPlan& plan) = nullptr;  // the manifest
};

Target slurm();
Target k8s_trainjob();
Target pytorchjob();
Target mpijob();
Target compose();

const std::vector<Target>& targets();

}  // namespace paceline::launch
