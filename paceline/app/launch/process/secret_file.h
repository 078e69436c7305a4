// Keeps the job's secret in a file that has no name in the file system: sealed memory that lives as
// long as a descriptor of it is open. A worker opens it as /proc/<pid of its shim>/fd/<number>.
// That path survives wrappers which close descriptors, only processes of the same user may open it,
// and it vanishes with the shim.
#pragma once

#include <string>
#include <string_view>

#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::launch {

// Read-only, mode 0600. THROWS Error (io).
transport::FileDescriptor secret_file(std::string_view text);

// The file's path for other processes, valid while process `pid` holds it open as descriptor `fd`.
std::string path_of_descriptor(int pid, int fd);

}  // namespace paceline::launch
