// Reads which hosts a job runs on, decides which ranks each of them gets, and tells what this host
// offers.
//
//   --hosts a:2,b:2        --hosts n[01-04]:8          (without a number: one rank)
//   a hostfile, a line a host:   a slots=2 max_slots=4   (Open MPI, Horovod)      a:2   (MPICH)
//                                # a comment
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/result.h"
#include "paceline/core/transport/socket/socket.h"

namespace paceline::launch {

struct HostSlots {
  std::string name;
  int slots = 1;
  bool operator==(const HostSlots&) const = default;
};

// The ranks first, first + 1, ..., first + count - 1.
struct HostShare {
  std::string name;
  int first = 0, count = 0;
  bool operator==(const HostShare&) const = default;
};

// A host that is named twice has the sum of its slots. The failure (misuse) shows the wrong part or
// line.
Result<std::vector<HostSlots>> parse_hosts(std::string_view text,
                                           std::string_view option = "--hosts");
Result<std::vector<HostSlots>> parse_hostfile(std::string_view text, std::string_view file);

// Fills host after host; `processes` 0 fills every slot. A host that gets no rank is left out.
Result<std::vector<HostShare>> share_ranks(const std::vector<HostSlots>& hosts, int processes);

// True for "localhost", a loopback address, and a name or address of this machine.
bool is_this_host(const std::string& name);

// --- what the launcher asks its own host for ---

int usable_cores();  // processors that this process may run on
// On 127.0.0.1, free a moment ago; 0 when there is none.
int free_port(transport::PortRange ports = {});
std::string random_job_id();  // 16 hexadecimal digits. THROWS Error (io)

}  // namespace paceline::launch
