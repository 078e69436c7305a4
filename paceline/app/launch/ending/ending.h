// The texts of a failed run: the verdict that the workers receive, and the last lines on the
// launcher's stderr.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "paceline/app/launch/ending/root_cause.h"
#include "paceline/app/launch/ending/supervisor.h"

namespace paceline::launch {

// {peer_lost, "rank 1 (pid 123) was killed by signal 9 (SIGKILL)", {1}}
Failure verdict_about(int root, const std::vector<RankRecord>& records);

// "ended with code 3", "could not be started: ...", "was lost: ..."
std::string how_it_ended(const RankRecord& record);

// Tells which rank failed first and how, and what the others did, in a few lines for any number of
// ranks. Empty for `done`.
std::string describe_generation(const Outcome& outcome, const std::vector<RankRecord>& records,
                                std::string_view host);
// The same, and the exit code of the run.
std::string describe_ending(const Outcome& outcome, const std::vector<RankRecord>& records,
                            std::string_view host);

// "rank 3", "ranks 0, 2-5"; `one`: what they are.
std::string name_ranks(const std::vector<int>& ascending, std::string_view one = "rank");

}  // namespace paceline::launch
