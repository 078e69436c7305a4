// A directory of checkpoints belongs to one job at a time: a lock that ends with the process that
// holds it, however that ends.
#pragma once

#include <string>

#include "paceline/core/base/result.h"

namespace paceline::checkpoint {

inline constexpr std::string_view kLockName = ".lock";

class DirectoryLock {
 public:
  // Writes `owner`, one line such as "job a1, host n1, process 4711", into the lock's file, for
  // those who find it taken. A failure (misuse) tells the owner that holds it; (io) that the
  // directory is not there, or not writable. It waits half a second for a process that is about to
  // end.
  static Result<DirectoryLock> take(const std::string& directory, const std::string& owner);
  // The line of the process that holds it, or held it last. For ranks that shall see the same
  // directory as the one that took it.
  static Result<std::string> owner_of(const std::string& directory);

  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&&) = delete;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int file) : file_(file) {}
  int file_;
};

}  // namespace paceline::checkpoint
