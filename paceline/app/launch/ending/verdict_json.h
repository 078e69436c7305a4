// The end of a generation as JSON, for programs: verdict.json of --log-dir.
#pragma once

#include <string>
#include <vector>

#include "paceline/app/launch/ending/root_cause.h"
#include "paceline/app/launch/ending/supervisor.h"

namespace paceline::launch {

struct VerdictFacts {
  std::string job;  // its id
  int generation = 1;
  std::string host;  // the launcher's
  int ranks = 1;     // records from here on are those of servers
};

// One object: "outcome" (done, failed, interrupted, timed_out or output_lost), "exit_code", "job",
// "generation", "told", the sentences on stderr, and for `failed` "first", the process that failed
// first; "processes" has each with "rank" or "server", "host", "pid", "how" in words, "exit_code",
// "signal" if one killed it, "stopped" if the launcher ended it, and "told", its own report.
std::string verdict_json(const Outcome& outcome, const std::vector<RankRecord>& records,
                         const VerdictFacts& facts);

}  // namespace paceline::launch
