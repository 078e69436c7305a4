// Reads which hosts a job runs on, and decides which ranks each of them gets. Pure.
//
//   --hosts a:2,b:2        --hosts n[01-04]:8          (without a number: one rank)
//   a hostfile, a line a host:   a slots=2 max_slots=4   (Open MPI, Horovod)      a:2   (MPICH)
//                                # a comment
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/base/result.h"

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

}  // namespace paceline::launch
