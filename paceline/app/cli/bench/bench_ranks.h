// Starts a measurement on its ranks: `paceline bench X --ranks 4` starts four processes of itself,
// as `paceline run -n 4 -- paceline bench X` would; a process that a launcher started (paceline
// run, mpirun, srun) takes part as a rank.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "paceline/app/cli/shared/job_options.h"
#include "paceline/core/job/job.h"

namespace CLI {
class App;
}

namespace paceline::cli {

struct RanksOptions {
  std::string ranks, transport, determinism;
  GivenHosts hosts;
  GivenServers servers = {};  // of benches that have their options
  bool bind = true;           // ranks to processors of their own
  bool as_rank = false;       // started by run_on_ranks
  bool progress = false;      // print the progress on stderr, which ends at a terminal
};

void add_ranks_options(CLI::App& app, RanksOptions& given);
void add_server_options(CLI::App& app, RanksOptions& given);

// The ranks are started as `paceline bench <bench>` with these arguments. `measure` runs on each
// rank; when its arguments are wrong (misuse) on all ranks, rank 0 alone reports it. Returns the
// exit code. THROWS Error.
int run_on_ranks(RanksOptions given, const char* bench, const std::vector<std::string>& arguments,
                 const std::function<int(Job&, const RanksOptions&)>& measure);

// Runs `prepare` on rank 0 alone; when it throws, every rank throws. THROWS Error (misuse).
void on_rank_0(Job& job, const std::function<void()>& prepare);

}  // namespace paceline::cli
