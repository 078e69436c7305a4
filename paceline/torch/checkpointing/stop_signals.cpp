#include "paceline/torch/checkpointing/stop_signals.h"

#include <signal.h>

#include <array>
#include <atomic>
#include <mutex>
#include <utility>

namespace paceline::checkpointing {
namespace {

// A signal is the whole process's, so what counts it is too.
std::atomic<std::int64_t> stops_caught = 0, saves_caught = 0;
static_assert(std::atomic<std::int64_t>::is_always_lock_free, "a signal handler may not lock");

void count_signal(int number) {
  (number == SIGUSR1 ? saves_caught : stops_caught).fetch_add(1, std::memory_order_relaxed);
}

// One signal that is caught, and what handled it before.
class Caught {
 public:
  // `has_force`: what the program itself does about it gives way.
  Caught(int number, bool has_force) : number_(number), has_force_(has_force) {}

  void begin() {
    struct sigaction action = {};
    action.sa_handler = &count_signal;
    action.sa_flags = SA_RESTART | (has_force_ ? 0 : static_cast<int>(SA_RESETHAND));
    ::sigaction(number_, nullptr, &before_);
    is_caught_ = has_force_ || is_default(before_);
    if (is_caught_) ::sigaction(number_, &action, nullptr);
  }
  // A handler that the program has set up meanwhile stays.
  void end() {
    struct sigaction now = {};
    ::sigaction(number_, nullptr, &now);
    if (is_caught_ && now.sa_handler == &count_signal) ::sigaction(number_, &before_, nullptr);
  }

 private:
  static bool is_default(const struct sigaction& action) {
    return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
  }

  const int number_;
  const bool has_force_;
  bool is_caught_ = false;
  struct sigaction before_ = {};
};

struct Catching {
  std::mutex mutex;
  int users = 0;
  std::array<Caught, 4> signals = {Caught(SIGTERM, true), Caught(SIGUSR1, true),
                                   Caught(SIGINT, false), Caught(SIGHUP, false)};
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
  for (Caught& signal : all.signals) signal.begin();
}

StopSignals::~StopSignals() {
  Catching& all = catching();
  const std::lock_guard lock(all.mutex);
  if (--all.users > 0) return;
  for (Caught& signal : all.signals) signal.end();
}

StopSignals::Asked StopSignals::take() {
  const std::int64_t stops = stops_caught, saves = saves_caught;
  const Asked asked{.save = saves != std::exchange(saves_seen_, saves),
                    .stop = stops != std::exchange(stops_seen_, stops)};
  return asked;
}

}  // namespace paceline::checkpointing
