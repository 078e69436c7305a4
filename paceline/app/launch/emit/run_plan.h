// A run as a value, to be written as the manifest of another system: which command runs as how many
// processes on how many nodes, and what the nodes give it; and the table of these systems.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "paceline/app/launch/process/environment.h"

namespace paceline::launch {

// A place for checkpoints that outlives containers.
struct Volume {
  std::string source;  // Kubernetes: a claim; Compose: a volume's name, or a folder if it has a '/'
  std::string path;    // the absolute folder in each container
};

struct RunPlan {
  std::string name;  // the job's: lower case letters, digits and '-', a letter first
  int nodes = 1;
  int processes = 1;                      // on each node
  std::vector<std::string> command;       // the user's program and its arguments
  std::string launcher = "paceline";      // how a node calls this command
  std::vector<std::string> options = {};  // of `paceline run` on each node, without its place
  Environment environment = {};           // "NAME=value"
  int max_restarts = 0;
  std::chrono::seconds stop_grace{30};
  std::optional<std::chrono::seconds> timeout = {};
  int devices = 0;         // CUDA devices of each node; 0: it needs none
  std::string image = {};  // for containers
  std::optional<Volume> volume = {};
};

// The part of `paceline run`'s command line that tells a node its place. Each text is one that the
// target replaces by a value; an empty one is left out.
struct NodePlace {
  std::string node_rank = {}, endpoint = {}, id = {}, secret_file = {};
};

// {"paceline", "run", "--nnodes", ..., "-n", "2", <options>, "--"}, without the place where there
// is one node. The command is to follow.
std::vector<std::string> launcher_words(const RunPlan& plan, const NodePlace& place);

// The line of a manifest that says where the lines of the ranks are (--log-dir); empty: in no file.
std::string note_on_logs(const RunPlan& plan);

// The systems whose manifests `paceline run --emit` writes, as a table. Each file of this folder
// that is called like a target defines its entry.
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
