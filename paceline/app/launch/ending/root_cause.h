// Finds the rank that failed first from the records of all ranks. Servers count as ranks here, with
// the numbers that follow. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "paceline/core/base/deadline.h"
#include "paceline/core/base/result.h"

namespace paceline::launch {

struct RankRecord {
  int pid = 0;
  std::optional<int> wait_status = {};  // as waitpid gives it; empty: it has not ended
  Clock::time_point stamp = {};         // when it ended
  bool stopped = false;                 // it ended because the launcher told it to
  std::string not_started = {};         // why no process was started
  std::string lost = {};                // why its end is unknown, e.g. its host is unreachable
  bool joined = false;                  // it has come to the job's store
  bool left = false;                    // it has ended its Job, and said so
  bool linked = false;                  // it has said that it is linked to all others
  bool late = false;                    // a server that was started in the place of another one
  bool borne = false;                   // a server whose end fails nobody: others have what it had
  std::string absent = {};              // why the run could not begin without it
  std::string deserted = {};       // what it has not done before it ended with 0: "without ..."
  std::string host = {};           // empty: the launcher's own
  std::optional<int> server = {};  // which server it is; nothing: a rank
  bool stayed = false;  // a server that had not ended with the ranks when the launcher killed it
  std::optional<Failure> report = {};  // its report through the store before it ended

  bool ended() const { return wait_status.has_value(); }
  // The work of a server that had to be killed is lost, though no rank has failed.
  bool overstayed() const { return stayed && wait_status != 0; }
  bool failed() const {
    const bool ended_badly = ended() && (*wait_status != 0 || !deserted.empty());
    return overstayed() || (ended_badly && !stopped && !borne);
  }
};

// The failed rank with the earliest stamp that does not blame another failed rank; if each blames
// another, the earliest of all. (A peer sees a death before the dead rank's parent does, so a rank
// that only suffered may end first.)
std::optional<int> find_root_cause(const std::vector<RankRecord>& records);

// Tells what a rank that ended with 0 has not done before, while others waited for it; empty: it
// owed nobody anything.
std::string desertion(int rank, const std::vector<RankRecord>& records);

// Whether the present root cause blames a rank that still runs, which may then become the root
// cause.
bool awaits_root_cause(const std::vector<RankRecord>& records);

int exit_code_of(int wait_status);  // 3; 128 + n for signal n
// "ended with code 3", "was killed by signal 9 (SIGKILL)".
std::string how_it_ended(int wait_status);

}  // namespace paceline::launch
