// SIGUSR1 lets a program go on that a test has held.
#pragma once

#include <signal.h>

namespace paceline::test {

inline sigset_t release_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGUSR1);
  return signals;
}

// Call it before there are other threads: one that comes early stays for wait_for_release.
inline void keep_release() {
  const sigset_t signals = release_signals();
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
}

inline void wait_for_release() {
  const sigset_t signals = release_signals();
  int number = 0;
  ::sigwait(&signals, &number);
}

}  // namespace paceline::test
