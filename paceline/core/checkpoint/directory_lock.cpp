#include "paceline/core/checkpoint/directory_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "paceline/core/base/deadline.h"
#include "paceline/core/base/number.h"
#include "paceline/core/base/processors.h"

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

bool means_no_locks(int error_number) {
  return error_number == ENOSYS || error_number == EOPNOTSUPP || error_number == ENOLCK;
}

// False: this file system has no locks.
Result<bool> lock_file(int file, const std::string& directory) {
  const Deadline deadline = Deadline::in(kPatience);
  while (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    if (means_no_locks(error)) return false;
    if (error != EWOULDBLOCK && error != EINTR)
      return io_failure(fmt::format("cannot lock {}", lock_path(directory)), error);
    if (deadline.passed()) {
      return Failure{Fault::misuse,
                     fmt::format("the checkpoints in {} are in use by {}: wait for it to end, or "
                                 "save into another directory",
                                 directory, read_owner(file)),
                     {}};
    }
    std::this_thread::sleep_for(kRetry);
  }
  return true;
}

// --- leases --------------------------------------------------------------------------------------

constexpr mode_t kLeaseMode = 0644;
constexpr int kAttempts = 10;
constexpr const char *kBootId = "/proc/sys/kernel/random/boot_id",
                     *kProcessNumbers = "/proc/self/ns/pid";

std::string first_line(const std::string& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

// Process numbers mean the same only within one namespace, so that those of another container
// cannot be looked up.
std::string namespace_of_processes() {
  std::array<char, 100> name = {};
  const ssize_t length = ::readlink(kProcessNumbers, name.data(), name.size());
  return {name.data(), length > 0 ? static_cast<std::size_t>(length) : 0};
}

// When the process was started, in ticks since the host was; empty: it is no more. A number is
// given again later, to a process that started at another time.
std::string start_of_process(const std::string& process) {
  constexpr int kField = 20;  // counted behind the name, which may hold blanks: 22 in proc(5)
  const std::string line = first_line("/proc/" + process + "/stat");
  std::size_t at = line.rfind(')');
  for (int field = 0; field < kField && at != std::string::npos; ++field)
    at = line.find(' ', at + 1);
  return at == std::string::npos ? "" : line.substr(at + 1, line.find(' ', at + 1) - at - 1);
}

struct Holder {
  std::string owner, host, boot, numbers, process, start, job, generation;

  static Holder this_process(const std::string& owner, const RunOfJob& run) {
    const std::string process = std::to_string(::getpid());
    return {owner,
            host_name(),
            first_line(kBootId),
            namespace_of_processes(),
            process,
            start_of_process(process),
            run.job,
            std::to_string(run.generation)};
  }
  std::string text() const {
    return fmt::format(
        "{}\nhost {}\nboot {}\nprocesses {}\nprocess {}\nstart {}\njob {}\n"
        "generation {}\n",
        owner, host, boot, numbers, process, start, job, generation);
  }
  // A text that is no lease leaves fields empty.
  static Holder read(const std::string& text) {
    Holder holder;
    const std::array fields = {std::pair{"host ", &holder.host},
                               std::pair{"boot ", &holder.boot},
                               std::pair{"processes ", &holder.numbers},
                               std::pair{"process ", &holder.process},
                               std::pair{"start ", &holder.start},
                               std::pair{"job ", &holder.job},
                               std::pair{"generation ", &holder.generation}};
    std::size_t at = text.find('\n');
    holder.owner = text.substr(0, at);
    while (at != std::string::npos && at + 1 < text.size()) {
      const std::size_t end = text.find('\n', at + 1);
      const std::string line = text.substr(at + 1, end - at - 1);
      for (const auto& [name, value] : fields)
        if (line.starts_with(name)) *value = line.substr(std::string_view(name).size());
      at = end;
    }
    return holder;
  }
};

// Whether the process that wrote the lease has surely ended.
bool is_over(const Holder& holder, const RunOfJob& run) {
  const auto generation = paceline::number_in<std::uint64_t>(holder.generation);
  if (!run.job.empty() && holder.job == run.job && generation && *generation < run.generation)
    return true;
  if (holder.host.empty() || holder.host != host_name() || holder.boot.empty()) return false;
  if (holder.boot != first_line(kBootId)) return true;
  return holder.numbers == namespace_of_processes() && !holder.start.empty() &&
         start_of_process(holder.process) != holder.start;
}

// Nothing: there is no such file.
std::optional<std::string> text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Failure in_use(const std::string& directory, const std::string& path, const Holder& holder) {
  return {Fault::misuse,
          fmt::format("the checkpoints in {} are in use by {}, as {} tells, because this file "
                      "system has no locks: wait for it to end, save into another directory, or, "
                      "if it has ended, remove that file",
                      directory, holder.owner.empty() ? "somebody" : holder.owner, path),
          {}};
}

// Two processes may find the same stale lease. The later one moves away what the earlier has put
// there meanwhile, sees that, and puts it back.
void remove_stale(const std::string& path, const std::string& stale) {
  static std::atomic<int> count = 0;
  const std::string aside = fmt::format("{}-{}-{}-{}", path, host_name(), ::getpid(), ++count);
  if (std::rename(path.c_str(), aside.c_str()) != 0) return;
  if (text_of(aside) != stale && ::link(aside.c_str(), path.c_str()) != 0 && errno != EEXIST)
    std::rename(aside.c_str(), path.c_str());
  ::unlink(aside.c_str());
}

// False: there is one already.
Result<bool> create(const std::string& path, const std::string& text) {
  const int file =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kLeaseMode);
  if (file < 0 && errno == EEXIST) return false;
  if (file < 0) return io_failure(fmt::format("cannot create {}", path), errno);
  const bool is_written =
      ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(file) == 0;
  const int error = errno;
  ::close(file);
  if (is_written) return true;
  ::unlink(path.c_str());
  return io_failure(fmt::format("cannot write to {}", path), error);
}

Result<> require_no_lease(const std::string& directory, const RunOfJob& run) {
  const std::string path = fmt::format("{}/{}", directory, kLeaseName);
  const auto text = text_of(path);
  if (!text) return Done{};
  const Holder holder = Holder::read(*text);
  if (!is_over(holder, run)) return in_use(directory, path, holder);
  remove_stale(path, *text);
  return Done{};
}

}  // namespace

// It removes its file, if that is still this one's.
class DirectoryLock::Lease {
 public:
  static Result<std::unique_ptr<Lease>> take(const std::string& directory, const std::string& owner,
                                             const RunOfJob& run);
  Lease(std::string path, std::string text) : path_(std::move(path)), text_(std::move(text)) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    if (text_of(path_) == text_) ::unlink(path_.c_str());
  }

 private:
  const std::string path_, text_;
};

Result<std::unique_ptr<DirectoryLock::Lease>> DirectoryLock::Lease::take(
    const std::string& directory, const std::string& owner, const RunOfJob& run) {
  const std::string path = fmt::format("{}/{}", directory, kLeaseName);
  const std::string text = Holder::this_process(owner, run).text();
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (auto free = require_no_lease(directory, run); !free) return free.error();
    const auto created = create(path, text);
    if (!created) return created.error();
    if (created.value()) return std::make_unique<Lease>(path, text);
  }
  return Failure{Fault::io, fmt::format("{} is taken and given up all the time", path), {}};
}

// --- the lock ------------------------------------------------------------------------------------

Result<DirectoryLock> DirectoryLock::take(const std::string& directory, const std::string& owner,
                                          const RunOfJob& run) {
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
  const auto has_locks = lock_file(file, directory);
  if (!has_locks) return has_locks.error();
  if (has_locks.value()) {
    // Hosts that share the directory may differ in this.
    if (auto free = require_no_lease(directory, run); !free) return free.error();
  } else {
    auto lease = Lease::take(directory, owner, run);
    if (!lease) return lease.error();
    lock.lease_ = *std::move(lease);
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

DirectoryLock::DirectoryLock(int file) : file_(file) {}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept
    : file_(std::exchange(other.file_, -1)), lease_(std::move(other.lease_)) {}

DirectoryLock::~DirectoryLock() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace paceline::checkpoint
