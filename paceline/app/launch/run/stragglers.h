// Watches who lets others wait at the start and at the end of a run, from the records of all ranks:
// without a clock and without processes. Programs that never join wait for nobody, so there is
// nothing to say of them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "paceline/app/launch/ending/root_cause.h"
#include "paceline/core/base/deadline.h"

namespace paceline::launch {

// The start: who waits for whom, when to say so, and when to give up.
class Starting {
 public:
  using Moment = Clock::time_point;

  struct Options {
    Clock::duration stall = std::chrono::seconds(5);  // a wait of this length is told
    Clock::duration limit = std::chrono::minutes(5);  // --start-timeout
    std::string host = {};                            // the launcher's own, for texts
  };
  // The processes are started now.
  Starting(Options options, Moment now) : options_(std::move(options)), begun_(now) {}

  // The first one has joined, so the others are waited for.
  void on_joined(Moment now) {
    if (!first_joined_) first_joined_ = now;
  }

  // The line that is due now: who has joined, who is missing and why that may be. Again each time
  // after twice as long.
  std::optional<std::string> line(const std::vector<RankRecord>& records, Moment now);
  // The lowest rank without which the run cannot begin, if it has had its time.
  std::optional<int> overdue(const std::vector<RankRecord>& records, Moment now) const;
  // The reason why it ends the run.
  std::string too_late(int rank, const std::vector<RankRecord>& records) const;
  // The moment of the next line or of the limit; it never comes while nobody waits.
  Deadline next_timer(const std::vector<RankRecord>& records) const;

 private:
  std::optional<Moment> waits_since(const std::vector<RankRecord>& records) const;

  const Options options_;
  const Moment begun_;
  std::optional<Moment> first_joined_;
  int told_ = 0;
};

// The end: whom those that have ended leave behind, and when to say so. A rank may rightly work
// alone at the end, so nothing follows from it. Servers are waited for when all ranks have ended.
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
  Moment next_line(bool for_servers, Moment since) const;

  const Options options_;
  int told_ = 0, told_of_servers_ = 0;
};

// Reads /proc; false where that cannot be read.
bool is_stopped_process(int pid);

}  // namespace paceline::launch
