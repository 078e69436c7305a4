// Turns signals into events of the launcher's loop, and names them.
#pragma once

#include <signal.h>

#include <functional>
#include <string>

#include "paceline/core/transport/reactor/poller.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::launch {

// "SIGKILL"; "signal 34" for one without a name.
std::string signal_name(int number);

// While it lives, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 wait to be read (those that
// were ignored at the start, as under nohup, stay ignored), SIGPIPE is ignored, and a background
// process may use its terminal without being stopped. The destructor restores the previous state.
class SignalWatch {
 public:
  SignalWatch(transport::Poller& poller, std::function<void(int)> on_signal);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // The original settings, for processes that we start.
  const sigset_t& original_mask() const { return mask_; }
  const struct sigaction& original_pipe_action() const { return pipe_action_; }

 private:
  void read();

  transport::Poller& poller_;
  std::function<void(int)> on_signal_;
  sigset_t mask_;
  struct sigaction pipe_action_;
  transport::FileDescriptor descriptor_;
};

// Sends it to each process of the caller's process group that catches the signal. One that does
// not, such as a shell around a program, would be ended by it.
void signal_processes_with_handler(int signal);

}  // namespace paceline::launch
