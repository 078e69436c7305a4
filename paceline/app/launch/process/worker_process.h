// One worker under its shim: the shim itself, and the launcher's end of it.
#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "paceline/app/launch/process/environment.h"
#include "paceline/core/base/result.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::launch {

// The shim: a small resident process between the launcher and one worker.
//
// PR_SET_PDEATHSIG reaches only a direct child, so a program started through `bash -c` or Python's
// subprocess would survive a launcher that was killed. The shim is the launcher's fork (no exec):
// it leads the worker's process group and is the subreaper of everything below. It ends its whole
// subtree when the worker ends or when the launcher is gone. There is one exception: a wrapper that
// died of a forwarded signal (as bash does of SIGTERM) may have left behind the real program, which
// is still ending in its own way; that program may go on until the launcher kills it.
//
//   launcher --fork--> shim --fork, exec--> worker --> whatever it starts
//     ------ lifeline ------>   a byte: send this signal to the group; end of file: kill everything
//     <------ status -------    ShimMessage; end of file: the shim has ended, and nothing is left
//                               below it
struct ShimMessage {
  enum class Kind : std::uint32_t { started = 1, not_started, ended } kind = Kind::started;
  std::int32_t pid = 0;    // the worker's
  std::int32_t value = 0;  // not_started: errno; ended: the wait status
  std::int32_t reserved = 0;
  // CLOCK_MONOTONIC; ends are ordered by these stamps, not by when the launcher reads them.
  std::int64_t stamp_ns = 0;
};

struct ShimOrders {
  pid_t launcher = 0;
  std::string program = {};
  std::vector<std::string> command = {};
  Environment environment = {};  // without PACELINE_SECRET_FILE and PACELINE_SECRET_FD
  ProcessorSet processors = {};  // where the worker runs; empty: as the launcher

  // Descriptors; the shim closes all others.
  int lifeline = -1, status = -1, secret = -1;
  int input = -1, output = -1, error = -1;  // the worker's 0, 1, 2

  // The launcher's original settings, which the worker gets back.
  sigset_t signal_mask = {};
  struct sigaction pipe_action = {};
  rlimit open_files = {};
};

// REQUIRES: just forked from a process with one thread, all signals blocked.
[[noreturn]] void run_shim(const ShimOrders& orders);

// Ends with its shim: the destructor cuts the lifeline, so the shim kills everything below itself.
class WorkerProcess {
 public:
  // Forks the shim. It makes `orders.lifeline`, `status`, `output` and `error` itself. REQUIRES one
  // thread.
  static Result<WorkerProcess> start(ShimOrders orders);

  pid_t shim() const { return shim_; }
  int status() const { return status_.get(); }
  transport::FileDescriptor take_output() { return std::move(output_); }
  transport::FileDescriptor take_error() { return std::move(error_); }

  void forward(int signal);           // to the worker's process group
  void kill();                        // everything below the shim
  std::optional<ShimMessage> read();  // nullopt: the shim has ended. REQUIRES: status() is readable

 private:
  pid_t shim_ = -1;
  transport::FileDescriptor lifeline_, status_, output_, error_;
};

}  // namespace paceline::launch
