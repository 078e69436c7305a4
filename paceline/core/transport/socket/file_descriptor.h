// A file descriptor that closes itself.
#pragma once

#include <optional>
#include <utility>

namespace paceline::transport {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept { take(other); }
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      take(other);
    }
    return *this;
  }
  ~FileDescriptor() { reset(); }

  // It is of this process alone: a child of fork() has it closed from the start (forks.h).
  // REQUIRES: is_open().
  void close_in_children();

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  int release();  // -1: it was closed when this child began
  void reset();

 private:
  void take(FileDescriptor& other) {
    fd_ = std::exchange(other.fd_, -1);
    owner_ = std::exchange(other.owner_, {});
  }

  int fd_ = -1;
  std::optional<unsigned> owner_;  // the process that it is of alone, as forks() tells it
};

}  // namespace paceline::transport
