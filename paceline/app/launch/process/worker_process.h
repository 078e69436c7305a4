// The launcher's end of one shim and its worker.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <optional>

#include "paceline/app/launch/process/shim.h"
#include "paceline/core/base/result.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::launch {

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
