// A directory of checkpoints belongs to one job at a time: a lock that ends with the process that
// holds it, however that ends.
//
// A file system may have no locks (flock fails with ENOSYS, EOPNOTSUPP or ENOLCK). Then a lease is
// taken: a file that exists as long as its owner wants it. It tells who that is, so that what a
// dead one has left behind is recognised: a process that is no more, a host that was started again
// since, or an earlier generation of the same job, whose launcher starts the next when all have
// ended.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "paceline/core/base/result.h"

namespace paceline::checkpoint {

inline constexpr std::string_view kLockName = ".lock", kLeaseName = ".lease";

// The run for which a directory is held; a job that nobody started again has generation 1.
struct RunOfJob {
  std::string job = {};  // empty: unknown
  std::uint64_t generation = 1;
};

class DirectoryLock {
 public:
  // Writes `owner`, one line such as "job a1, host n1, process 4711", into the lock's file, for
  // those who find it taken. A failure (misuse) tells the owner that holds it, and of a lease what
  // to do if that owner has ended unseen, on a host that this process cannot ask; (io) that the
  // directory is not there, or not writable. It waits half a second for a process that is about to
  // end.
  static Result<DirectoryLock> take(const std::string& directory, const std::string& owner,
                                    const RunOfJob& run = {});
  // The line of the process that holds it, or held it last. For ranks that shall see the same
  // directory as the one that took it.
  static Result<std::string> owner_of(const std::string& directory);

  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&&) = delete;
  ~DirectoryLock();

 private:
  explicit DirectoryLock(int file);
  int file_;
  class Lease;
  std::unique_ptr<Lease> lease_;  // none where files can be locked
};

}  // namespace paceline::checkpoint
