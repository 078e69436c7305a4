// The signals by which a run is asked to save: SIGTERM, then it ends; SIGUSR1, and it goes on.
#pragma once

#include <cstdint>

namespace paceline::checkpointing {

// While at least one lives, the two signals are caught in this process; the last one gives them
// back to what handled them before. THREAD: one.
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
