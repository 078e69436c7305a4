// What a host must offer to a run, found out by trying: `paceline doctor` shows it.
#pragma once

#include <string>
#include <vector>

namespace paceline::launch {

struct HostCheck {
  enum class Level { ok, warn, fail } level = Level::ok;
  std::string name;
  std::string found;        // what is there
  std::string remedy = {};  // what to do about it; empty when ok
  bool operator==(const HostCheck&) const = default;
};

// Each looks at one thing and changes nothing that stays. COST: some milliseconds together.
std::vector<HostCheck> check_host();

// Whether two processes of this host can train over `transport` (shm, tcp): starts them, as
// `paceline run -n 2` of `executable` with `worker_arguments`, and waits at most 10 s.
HostCheck check_transport(const std::string& transport, const std::string& executable,
                          const std::vector<std::string>& worker_arguments);

// The same under mpirun of one MPI library, openmpi or mpich, which carries the data; a warning
// where it cannot.
HostCheck check_mpi(const std::string& library, const std::string& executable,
                    const std::vector<std::string>& worker_arguments);

// Whether one process can make an NCCL communicator; a warning where it cannot.
HostCheck check_nccl(const std::string& executable,
                     const std::vector<std::string>& worker_arguments);

// Whether two processes can train over UCX, if its plugin is there, and whether `auto` takes it
// here; a warning where it cannot.
HostCheck check_ucx(const std::string& executable,
                    const std::vector<std::string>& worker_arguments);

}  // namespace paceline::launch
