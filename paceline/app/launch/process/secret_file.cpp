#include "paceline/app/launch/process/secret_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "paceline/core/base/result.h"

namespace paceline::launch {

transport::FileDescriptor secret_file(std::string_view text) {
  transport::FileDescriptor file(
      ::memfd_create("paceline-secret", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file.is_open())
    throw Error(io_failure("cannot create sealed memory for the job's secret", errno));
  const bool written =
      ::fchmod(file.get(), 0600) == 0 &&
      ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (!written || ::fcntl(file.get(), F_ADD_SEALS,
                          F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    throw Error(io_failure("cannot write the job's secret to sealed memory", errno));
  }
  return file;
}

std::string path_of_descriptor(int pid, int fd) {
  return fmt::format("/proc/{}/fd/{}", pid, fd);
}

}  // namespace paceline::launch
