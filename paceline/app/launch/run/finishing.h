// Watches the end of a run: whom those that have ended leave behind, and when to say so.
//
// It has no clock: it reads the records of all ranks. A rank may rightly work alone at the end, so
// nothing follows from it. Of programs that never join it has nothing to say.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "paceline/app/launch/ending/root_cause.h"
#include "paceline/core/base/deadline.h"

namespace paceline::launch {

class Finishing {
 public:
  using Moment = Clock::time_point;

  struct Options {
    Clock::duration stall = std::chrono::seconds(5);  // a wait of this length is told
    std::string host = {};                            // the launcher's own, for texts
    // Whether a process on the launcher's host is stopped, as by Ctrl-Z or SIGSTOP.
    std::function<bool(int pid)> is_stopped = [](int) { return false; };
  };
  explicit Finishing(Options options) : options_(std::move(options)) {}

  // The line that is due now: who has ended and who runs on. Again each time after twice as long.
  std::optional<std::string> line(const std::vector<RankRecord>& records, Moment now);
  // The moment of the next line; it never comes while all run or none does.
  Deadline next_timer(const std::vector<RankRecord>& records) const;

 private:
  const Options options_;
  int told_ = 0;
};

// Reads /proc; false where that cannot be read.
bool is_stopped_process(int pid);

}  // namespace paceline::launch
