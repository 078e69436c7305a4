#include "paceline/torch/checkpoint/stop_signals.h"

#include <signal.h>

#include <atomic>
#include <mutex>
#include <utility>

namespace paceline::checkpointing {
namespace {

// A signal is the whole process's, so what counts it is too.
std::atomic<std::int64_t> stops_caught = 0, saves_caught = 0;
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "a signal handler may not lock");

void count_signal(int number) {
  (number == SIGTERM ? stops_caught : saves_caught).fetch_add(1, std::memory_order_relaxed);
}

struct Catching {
  std::mutex mutex;
  int users = 0;
  struct sigaction stop_before = {}, save_before = {};
};
Catching& catching() {
  static Catching one;
  return one;
}

}  // namespace

StopSignals::StopSignals() : stops_seen_(stops_caught), saves_seen_(saves_caught) {
  Catching& all = catching();
  const std::lock_guard lock(all.mutex);
  if (all.users++ > 0) return;
  struct sigaction action = {};
  action.sa_handler = &count_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, &all.stop_before);
  ::sigaction(SIGUSR1, &action, &all.save_before);
}

StopSignals::~StopSignals() {
  Catching& all = catching();
  const std::lock_guard lock(all.mutex);
  if (--all.users > 0) return;
  ::sigaction(SIGTERM, &all.stop_before, nullptr);
  ::sigaction(SIGUSR1, &all.save_before, nullptr);
}

StopSignals::Asked StopSignals::take() {
  const std::int64_t stops = stops_caught, saves = saves_caught;
  const Asked asked{.save = saves != std::exchange(saves_seen_, saves),
                    .stop = stops != std::exchange(stops_seen_, stops)};
  return asked;
}

}  // namespace paceline::checkpointing
