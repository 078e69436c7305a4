// The texts of a failed run: the verdict that the workers receive, the last lines on the launcher's
// stderr, and verdict.json.
#pragma once

#include <optional>
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

// The line about a server whose death the job bears: how it ended, and that this server is started
// in its place, or none.
std::string describe_loss(int server, std::optional<int> successor,
                          const std::vector<RankRecord>& records, std::string_view host);

// "rank 3", "ranks 0, 2-5"; `one`: what they are.
std::string name_ranks(const std::vector<int>& ascending, std::string_view one = "rank");

// The end of a generation as JSON, for programs: verdict.json of --log-dir.
struct VerdictFacts {
  std::string job;  // its id
  int generation = 1;
  std::string host;  // the launcher's
  int ranks = 1;     // records from here on are those of servers
};

// One object: "outcome" (done, failed, interrupted, timed_out or output_lost), "exit_code", "job",
// "generation", "told", the sentences on stderr, and for `failed` "first", the process that failed
// first; "processes" has each with "rank" or "server", "host", "pid", "how" in words, "exit_code",
// "signal" if one killed it, "stopped" if the launcher ended it, "borne" if the job went on without
// this server, and "told", its own report.
std::string verdict_json(const Outcome& outcome, const std::vector<RankRecord>& records,
                         const VerdictFacts& facts);

}  // namespace paceline::launch
