#include "paceline/core/transport/socket/file_descriptor.h"

#include <unistd.h>

#include "paceline/core/transport/socket/forks.h"

namespace paceline::transport {

void FileDescriptor::close_in_children() {
  owner_ = forks();
  transport::close_in_children(fd_, true);
}

int FileDescriptor::release() {
  const int fd = std::exchange(fd_, -1);
  const auto owner = std::exchange(owner_, {});
  if (fd < 0 || !owner) return fd;
  if (*owner != forks()) return -1;
  transport::close_in_children(fd, false);
  return fd;
}

void FileDescriptor::reset() {
  if (const int fd = release(); fd >= 0) ::close(fd);
}

}  // namespace paceline::transport
