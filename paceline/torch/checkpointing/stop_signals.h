// The signals by which a run is asked to save: SIGTERM, SIGINT (Ctrl-C) and SIGHUP, then it ends;
// SIGUSR1, and it goes on.
#pragma once

#include <cstdint>

namespace paceline::checkpointing {

// While at least one lives, the signals are caught in this process; the last one gives them back to
// what handled them before. SIGINT and SIGHUP are left alone where the program handles or ignores
// them (nohup), and a second one ends the process at once, as if nobody had caught it. THREAD: one.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  struct Asked {
    bool save = false, stop = false;
  };
  // Tells which signals have come since the last call.
  Asked take();

 private:
  std::int64_t stops_seen_, saves_seen_;
};

}  // namespace paceline::checkpointing
