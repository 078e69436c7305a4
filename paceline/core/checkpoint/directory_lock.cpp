#include "paceline/core/checkpoint/directory_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>
#include <utility>

#include "paceline/core/base/deadline.h"

namespace paceline::checkpoint {
namespace {

constexpr mode_t kLockMode = 0644;
constexpr auto kPatience = std::chrono::milliseconds(500);
constexpr auto kRetry = std::chrono::milliseconds(20);
constexpr std::size_t kLongestOwner = 1000;

std::string lock_path(const std::string& directory) {
  return fmt::format("{}/{}", directory, kLockName);
}

std::string read_owner(int file) {
  std::array<char, kLongestOwner> text = {};
  const ssize_t length = ::pread(file, text.data(), text.size(), 0);
  const std::string owner(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  return owner.substr(0, owner.find('\n'));
}

bool write_owner(int file, const std::string& owner) {
  const std::string line = owner.substr(0, kLongestOwner - 1) + "\n";
  return ::ftruncate(file, 0) == 0 &&
         ::pwrite(file, line.data(), line.size(), 0) == static_cast<ssize_t>(line.size());
}

}  // namespace

Result<DirectoryLock> DirectoryLock::take(const std::string& directory, const std::string& owner) {
  const std::string path = lock_path(directory);
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, kLockMode);
  if (file < 0) {
    const int error = errno;
    return io_failure(fmt::format("cannot save checkpoints in {}, which must be a directory that "
                                  "this process may write to",
                                  directory),
                      error);
  }
  DirectoryLock lock(file);
  const Deadline deadline = Deadline::in(kPatience);
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (error != EWOULDBLOCK && error != EINTR)
      return io_failure(fmt::format("cannot lock {}", path), error);
    if (deadline.passed()) {
      return Failure{Fault::misuse,
                     fmt::format("the checkpoints in {} are in use by {}: wait for it to end, or "
                                 "save into another directory",
                                 directory, read_owner(file)),
                     {}};
    }
    std::this_thread::sleep_for(kRetry);
  }
  if (!write_owner(file, owner)) {
    const int error = errno;
    return io_failure(fmt::format("cannot write to {}", path), error);
  }
  return lock;
}

Result<std::string> DirectoryLock::owner_of(const std::string& directory) {
  const std::string path = lock_path(directory);
  const int file = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (file < 0) {
    const int error = errno;
    return io_failure(fmt::format("cannot open {}", path), error);
  }
  const DirectoryLock closes_it(file);
  return read_owner(file);
}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept
    : file_(std::exchange(other.file_, -1)) {}

DirectoryLock::~DirectoryLock() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace paceline::checkpoint
