// Tests by trying whether a host offers what a run needs; `paceline doctor` shows the results.
#pragma once

#include <string>
#include <vector>

namespace paceline::launch {

struct HostCheck {
  enum class Level { ok, warn, fail } level = Level::ok;
  std::string name;
  std::string found;        // the host's state
  std::string remedy = {};  // what to do about it; empty when ok
  bool operator==(const HostCheck&) const = default;
};

// Each check looks at one thing and leaves nothing changed. COST: some milliseconds together.
std::vector<HostCheck> check_host();

// Whether two processes of this host can train over `transport` (shm, tcp): starts them, as
// `paceline run -n 2` of `executable` with `worker_arguments`, and waits at most 10 s.
HostCheck check_transport(const std::string& transport, const std::string& executable,
                          const std::vector<std::string>& worker_arguments);

// Checks the same under mpirun of one MPI library, openmpi or mpich, which carries the data; warns
// when that fails.
HostCheck check_mpi(const std::string& library, const std::string& executable,
                    const std::vector<std::string>& worker_arguments);

// The CUDA devices that Paceline's plugin finds; warns where it finds none.
HostCheck check_cuda_devices();

// Whether one process can make an NCCL communicator; warns when it cannot.
HostCheck check_nccl(const std::string& executable,
                     const std::vector<std::string>& worker_arguments);

// Whether two processes can train over UCX, if its plugin is installed, and whether `auto` selects
// UCX here; warns when they cannot.
HostCheck check_ucx(const std::string& executable,
                    const std::vector<std::string>& worker_arguments);

}  // namespace paceline::launch
