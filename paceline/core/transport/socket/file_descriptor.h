// A file descriptor that closes itself, and what a process does about all of them.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "paceline/core/base/result.h"

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

  // It is of this process alone: a child of fork() has it closed from the start. REQUIRES:
  // is_open().
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

// A child of fork() must leave its parent's connections alone.
//
// It has copies of its parent's memory and descriptors, but none of the other threads. While it
// holds a connection of its parent's, that connection does not end, so the others do not hear of
// the parent's death.
//
// A child of this process closes what is marked, as soon as it begins, from the first call on.
// Children that run another program at once (exec) lose it anyway. THREAD: any.
void watch_forks();

// How many forks lie between this process and the one that has called watch_forks: a child's number
// is another one than its parent's. THREAD: any.
unsigned forks();

// Whether children close this descriptor. THREAD: any.
void close_in_children(int fd, bool closes);

// Sees to it that this process may open `more` files (sockets, pipes and shared memory are among
// them) beside those that it has open: raises its soft limit to the hard one if need be. The
// failure names the limit, the need and the remedy. `who` begins its text: "rank 3 of 64".
Result<> make_room_for_files(std::size_t more, std::string_view who);

}  // namespace paceline::transport
