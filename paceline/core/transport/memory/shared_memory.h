// Memory that several processes map: a sealed memfd, which leaves nothing behind when its last
// holder is gone.
#pragma once

#include <cstdint>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/result.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::transport {

// Bytes [begin, end) of a segment.
struct Extent {
  std::uint64_t begin = 0, end = 0;
  bool is_empty() const { return begin >= end; }
  std::uint64_t size() const { return is_empty() ? 0 : end - begin; }
  bool operator==(const Extent&) const = default;
};

class SharedMemory {
 public:
  // Zeroed, page-aligned, committed (a lack of memory fails here and never later as SIGBUS), sealed
  // against shrinking and growing. The failure names the limit that refused it and the remedy.
  // `name` is what /proc/<pid>/fd shows.
  static Result<SharedMemory> create(std::size_t bytes, const char* name = "paceline");
  // Maps what a peer offers, and closes `fd`. Refused unless it is sealed and has exactly `bytes`
  // bytes.
  static Result<SharedMemory> attach(FileDescriptor fd, std::size_t bytes);

  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  MutableBytes bytes() const { return {data_, size_}; }
  int fd() const { return fd_.get(); }  // -1 when closed
  // Nobody else is to map it.
  void close_descriptor() { fd_ = FileDescriptor(); }

  // The part that its owner can take back from others: the pages that lie wholly in it. The last
  // page counts as whole where the part reaches the length that was asked for.
  Extent whole_pages(Extent part) const;
  // Once this has returned true, nothing that another process writes to `pages` arrives here: they
  // are replaced by pages of this process alone, with what they held. False: the system refused the
  // memory for them. REQUIRES: `pages` is what whole_pages returns; no thread of this process
  // writes there meanwhile.
  bool take_back(Extent pages) const;
  // False: some of it was taken back, and others have no use for the rest.
  bool is_shared() const { return is_shared_; }

 private:
  SharedMemory(FileDescriptor fd, std::byte* data, std::size_t size, std::size_t length);
  FileDescriptor fd_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t length_ = 0;  // as asked for; the rest of the last page belongs to nobody
  mutable bool is_shared_ = true;
};

}  // namespace paceline::transport
