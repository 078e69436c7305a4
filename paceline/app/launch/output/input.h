// Gives the launcher's stdin to rank 0 alone; all other ranks read /dev/null.
//
// A file or a pipe is inherited as it is. A terminal is read here and relayed through a pipe,
// because workers are in background process groups, where a read from the terminal would stop them
// (SIGTTIN).
#pragma once

#include <string>

#include "paceline/core/transport/reactor/poller.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::launch {

class Input {
 public:
  // THROWS Error (io).
  explicit Input(transport::Poller& poller);
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  int descriptor_for(int rank) const;  // to become the worker's stdin
  void workers_started();              // closes the workers' descriptors, begins to relay

 private:
  void read_terminal();
  void write_pipe();
  void pause_reading();
  void watch_terminal(bool on);
  void watch_pipe(bool on);
  void end();

  transport::Poller& poller_;
  bool relays_;
  transport::FileDescriptor nothing_, read_end_, write_end_;
  std::string waiting_;
  bool terminal_watched_ = false, pipe_watched_ = false, terminal_ended_ = false;
  transport::Poller::TimerId pause_ = 0;
};

}  // namespace paceline::launch
