// How a measurement comes to its ranks: `paceline bench X --ranks 4` starts four of itself, as
// `paceline run -n 4 -- paceline bench X` would; where a launcher has started it (paceline run,
// mpirun, srun), it takes part as a rank.
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
  bool as_rank = false;   // started by run_on_ranks
  bool progress = false;  // tell how far it is on stderr, which is a terminal's in the end
};

void add_ranks_options(CLI::App& app, RanksOptions& given);

// `words`: what follows "paceline", so that the ranks can be started. `measure` runs on each of
// them; what is wrong with its arguments (misuse) on all ranks is told by rank 0 alone. Returns the
// exit code. THROWS Error.
int run_on_ranks(RanksOptions given, std::vector<std::string> words,
                 const std::function<int(Job&, const RanksOptions&)>& measure);

// `prepare` on rank 0 alone; when it throws, every rank throws. THROWS Error (misuse).
void on_rank_0(Job& job, const std::function<void()>& prepare);

}  // namespace paceline::cli
