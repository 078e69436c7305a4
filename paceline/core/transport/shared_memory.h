// Memory that several processes map: a sealed memfd, which leaves nothing behind when its last
// holder is gone.
#pragma once

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/result.h"
#include "paceline/core/transport/file_descriptor.h"

namespace paceline::transport {

class SharedMemory {
 public:
  // Zeroed, page-aligned, committed (a lack of memory fails here and never later as SIGBUS), sealed
  // against shrinking and growing. The failure names the limit that refused it and the remedy.
  // `name` is what /proc/<pid>/fd shows.
  static Result<SharedMemory> create(std::size_t bytes, const char* name = "paceline");
  // Maps what a peer offers. Refused unless it is sealed and has exactly `bytes` bytes.
  static Result<SharedMemory> attach(FileDescriptor fd, std::size_t bytes);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  MutableBytes bytes() const { return {data_, size_}; }
  int fd() const { return fd_.get(); }

 private:
  SharedMemory(FileDescriptor fd, std::byte* data, std::size_t size);
  FileDescriptor fd_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace paceline::transport
