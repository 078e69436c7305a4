#include "paceline/torch/checkpointing/stop_signals.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace paceline::checkpointing {
namespace {

// The wait status of a child that runs `body`.
int status_of_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(StopSignals, EachSignalThatEndsAProgramAsksItToSaveAndStop) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    ::signal(number, SIG_DFL);
    StopSignals signals;
    ::raise(number);
    const StopSignals::Asked asked = signals.take();
    EXPECT_TRUE(asked.stop) << number;
    EXPECT_FALSE(asked.save) << number;
    EXPECT_FALSE(signals.take().stop) << number;
  }
  StopSignals signals;
  ::raise(SIGUSR1);
  const StopSignals::Asked asked = signals.take();
  EXPECT_TRUE(asked.save);
  EXPECT_FALSE(asked.stop);
}

TEST(StopSignals, ASecondControlCOrHangupEndsTheProgramAtOnce) {
  for (const int number : {SIGINT, SIGHUP}) {
    const int status = status_of_child([number] {
      ::signal(number, SIG_DFL);
      StopSignals signals;
      ::raise(number);
      ::raise(number);
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << number;
  }
}

TEST(StopSignals, WhatTheProgramItselfDoesAboutControlCAndAHangupStays) {
  static volatile sig_atomic_t own = 0;
  const int status = status_of_child([] {
    ::signal(SIGHUP, SIG_IGN);
    ::signal(SIGINT, [](int) { own = 1; });
    StopSignals signals;
    ::raise(SIGHUP);
    ::raise(SIGINT);
    if (signals.take().stop || own != 1) ::_exit(1);
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace paceline::checkpointing
