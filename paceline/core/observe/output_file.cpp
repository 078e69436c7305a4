#include "paceline/core/observe/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "paceline/core/base/result.h"

namespace paceline::observe {

OutputFile::OutputFile(std::string what, std::string path)
    : what_(std::move(what)), path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) {
    Failure failure = io_failure(fmt::format("cannot write the {} {}", what_, path_), errno);
    failure.what += ". Name a file in a folder that exists and can be written";
    throw Error(std::move(failure));
  }
}

OutputFile::~OutputFile() {
  ::close(descriptor_);
}

void OutputFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0)
      throw Error(io_failure(fmt::format("writing to the {} {}", what_, path_), errno));
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace paceline::observe
