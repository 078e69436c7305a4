// A pipe to a process that the launcher starts.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "paceline/core/base/result.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::launch {

struct Pipe {
  transport::FileDescriptor read, write;
};

// Makes a pipe whose ends are closed when this process executes another program. `to` names the
// reader or writer at the other end in an error, such as "a worker". `flags` go to pipe2(2).
inline Result<Pipe> make_pipe(const char* to, int flags = 0) {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC | flags) != 0)
    return io_failure(std::string("cannot make a pipe to ") + to + " (raise `ulimit -n`)", errno);
  return Pipe{transport::FileDescriptor(ends[0]), transport::FileDescriptor(ends[1])};
}

}  // namespace paceline::launch
