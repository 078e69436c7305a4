// Finds the ranks and servers that run on this host now, by the status pages of this user's
// processes (transport/memory/status_page.h).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "paceline/core/transport/memory/status_page.h"

namespace paceline::observe {

struct HostRank {  // or a server (status.server)
  int pid = 0;
  transport::RankStatus status;
  double cpu_seconds = 0;
  std::int64_t memory_bytes = 0;  // resident
  bool stopped = false;           // by SIGSTOP, Ctrl-Z or a debugger
};

// The ranks of every job, or of `job` alone, in the order of jobs and ranks, then servers. It needs
// no cooperation of the ranks: it also sees one that is stopped or hangs.
std::vector<HostRank> ranks_on_this_host(std::string_view job = {});

}  // namespace paceline::observe
