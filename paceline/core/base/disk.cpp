#include "paceline/core/base/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace paceline {
namespace {

constexpr off_t kWriteBack = 8 << 20;
constexpr mode_t kFileMode = 0644, kDirectoryMode = 0755;

Failure failed(std::string_view doing, const std::string& path) {
  const int error = errno;
  return io_failure(fmt::format("cannot {} {}", doing, path), error);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

class WrittenFile final : public Disk::File {
 public:
  WrittenFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  Result<> reserve(std::uint64_t bytes) override {
    if (bytes == 0) return Done{};
    while (::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) != 0) {
      if (errno == EOPNOTSUPP || errno == ENOSYS) return Done{};
      if (errno != EINTR) return failed("reserve room for", path_);
    }
    return Done{};
  }

  Result<> append(Bytes bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
      if (written < 0 && errno != EINTR) return failed("write to", path_);
      if (written > 0) bytes = bytes.subspan(static_cast<std::size_t>(written));
      length_ += std::max<ssize_t>(written, 0);
    }
    begin_to_write_back();
    return Done{};
  }

  Result<> sync() override {
    if (::fsync(fd_.get()) != 0) return failed("make durable", path_);
    return Done{};
  }

 private:
  // The disk works while the rest is still being copied, so that sync() has less to wait for. It is
  // no promise, so its failure is none.
  void begin_to_write_back() {
    if (length_ - begun_ < kWriteBack) return;
    ::sync_file_range(fd_.get(), begun_, length_ - begun_, SYNC_FILE_RANGE_WRITE);
    begun_ = length_;
  }

  const Descriptor fd_;
  const std::string path_;
  off_t length_ = 0, begun_ = 0;
};

class ReadFile final : public Disk::Source {
 public:
  ReadFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  Result<> measure() {
    struct stat status = {};
    if (::fstat(fd_.get(), &status) != 0) return failed("look at", path_);
    if (!S_ISREG(status.st_mode))
      return Failure{Fault::io, fmt::format("{} is no ordinary file", path_), {}};
    size_ = static_cast<std::uint64_t>(status.st_size);
    return Done{};
  }

  std::uint64_t size() const override { return size_; }

  Result<> read(std::uint64_t offset, MutableBytes into) override {
    while (!into.empty()) {
      const ssize_t count =
          ::pread(fd_.get(), into.data(), into.size(), static_cast<off_t>(offset));
      if (count < 0 && errno != EINTR) return failed("read", path_);
      if (count == 0) {
        return Failure{
            Fault::io, fmt::format("{} ends at byte {}, and more was expected", path_, offset), {}};
      }
      if (count > 0) {
        into = into.subspan(static_cast<std::size_t>(count));
        offset += static_cast<std::uint64_t>(count);
      }
    }
    return Done{};
  }

 private:
  const Descriptor fd_;
  const std::string path_;
  std::uint64_t size_ = 0;
};

// A failure leaves errno set.
Disk::Entry::Kind kind_of(const std::string& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) return Disk::Entry::Kind::other;
  if (S_ISREG(status.st_mode)) return Disk::Entry::Kind::file;
  return S_ISDIR(status.st_mode) ? Disk::Entry::Kind::directory : Disk::Entry::Kind::other;
}

}  // namespace

Result<std::unique_ptr<Disk::File>> SystemDisk::create(const std::string& path) {
  const int fd =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode);
  if (fd < 0) return failed("create", path);
  return std::unique_ptr<File>(std::make_unique<WrittenFile>(fd, path));
}

// O_NONBLOCK: opening a pipe that somebody put there must not wait for its other end.
Result<std::unique_ptr<Disk::Source>> SystemDisk::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return failed("open", path);
  auto file = std::make_unique<ReadFile>(fd, path);
  if (auto measured = file->measure(); !measured) return measured.error();
  return std::unique_ptr<Source>(std::move(file));
}

Result<std::vector<Disk::Entry>> SystemDisk::list(const std::string& directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> opened(::opendir(directory.c_str()), &::closedir);
  std::vector<Entry> entries;
  if (!opened)
    return errno == ENOENT ? Result<std::vector<Entry>>(entries) : failed("list", directory);
  errno = 0;
  while (const dirent* entry = ::readdir(opened.get())) {
    const std::string name = entry->d_name, path = directory + "/" + name;
    if (name == "." || name == "..") continue;
    errno = 0;
    const Entry::Kind kind = kind_of(path);
    // A file that was removed meanwhile is no failure.
    if (errno != 0 && errno != ENOENT) return failed("look at", path);
    entries.push_back({.name = name, .kind = kind});
    errno = 0;
  }
  if (errno != 0) return failed("list", directory);
  std::ranges::sort(entries, {}, &Entry::name);
  return entries;
}

Result<> SystemDisk::make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), kDirectoryMode) == 0) return Done{};
  const bool is_there = errno == EEXIST && kind_of(path) == Entry::Kind::directory;
  if (is_there) return Done{};
  return failed("make the directory", path);
}

Result<> SystemDisk::rename(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0)
    return Done{};
  // File systems that do not know the flag, such as NFS, still refuse to replace a full directory.
  const bool knows_flag = errno != EINVAL && errno != ENOSYS;
  struct stat status = {};
  if (knows_flag) return failed("rename to " + to, from);
  if (::lstat(to.c_str(), &status) == 0) errno = EEXIST;
  else if (std::rename(from.c_str(), to.c_str()) == 0) return Done{};
  return failed("rename to " + to, from);
}

Result<> SystemDisk::replace(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) return failed("rename to " + to, from);
  return Done{};
}

Result<> SystemDisk::exchange(const std::string& one, const std::string& other) {
  if (::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) != 0)
    return failed("exchange with " + other, one);
  return Done{};
}

Result<> SystemDisk::remove(const std::string& path) {
  if (std::remove(path.c_str()) != 0) return failed("remove", path);
  return Done{};
}

Result<> SystemDisk::sync_directory(const std::string& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) return failed("open", path);
  if (::fsync(fd.get()) != 0) return failed("make the entries durable of", path);
  return Done{};
}

Result<std::uint64_t> SystemDisk::free_bytes(const std::string& directory) {
  struct statvfs status = {};
  if (::statvfs(directory.c_str(), &status) != 0)
    return failed("look at the file system of", directory);
  return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

Result<> remove_tree(Disk& disk, const std::string& directory) {
  const auto entries = disk.list(directory);
  if (!entries) return entries.error();
  for (const Disk::Entry& entry : entries.value()) {
    const std::string path = directory + "/" + entry.name;
    const auto removed =
        entry.kind == Disk::Entry::Kind::directory ? remove_tree(disk, path) : disk.remove(path);
    if (!removed) return removed;
  }
  return disk.remove(directory);
}

}  // namespace paceline
