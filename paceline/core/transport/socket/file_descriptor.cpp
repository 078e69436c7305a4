#include "paceline/core/transport/socket/file_descriptor.h"

#include <unistd.h>

namespace paceline::transport {

void FileDescriptor::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

}  // namespace paceline::transport
