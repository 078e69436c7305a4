// Which rank failed first, from what is known of each. Pure.
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
  std::string not_started = {};         // why there never was a process
  std::string lost = {};                // why nobody can tell how it ended: the way to its host
  std::string host = {};                // empty: the launcher's own
  std::optional<Failure> report = {};   // what it told through the store before it gave up

  bool ended() const { return wait_status.has_value(); }
  bool failed() const { return ended() && *wait_status != 0 && !stopped; }
};

// The rank that `rank` told it failed because of, e.g. a lost peer; the lowest, if there are
// several.
std::optional<int> blamed_by(int rank, const std::vector<RankRecord>& records);

// The failed rank with the earliest stamp that does not blame another failed one; if each blames
// another, the earliest of all. (A peer's death is seen before its parent hears of it: so the one
// that only suffered may well end first.)
std::optional<int> find_root_cause(const std::vector<RankRecord>& records);

// Whether a rank that is still running is blamed by the present root cause, so that it may become
// it.
bool awaits_root_cause(const std::vector<RankRecord>& records);

int exit_code_of(int wait_status);  // 3; 128 + n for signal n
std::string how_it_ended(
    int wait_status);  // "ended with code 3", "was killed by signal 9 (SIGKILL)"

}  // namespace paceline::launch
