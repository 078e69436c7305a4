// The shared memory that this process has allocated, and where a peer finds a piece of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "paceline/core/base/bytes.h"
#include "paceline/core/transport/memory/shared_memory.h"

namespace paceline::transport {

// A place in memory that its owner shares: segment 0 is none.
struct Remote {
  std::uint64_t segment = 0;
  std::uint64_t offset = 0;
  bool operator==(const Remote&) const = default;
};

// A buffer that its owner lends to other ranks. They may read all of it, and write what can be
// taken back from them.
struct SharedRegion {
  Remote place;
  Extent writable;  // of the segment
  bool operator==(const SharedRegion&) const = default;
};

// THREAD: reactor's driver only.
class SegmentTable {
 public:
  void add(std::uint64_t id, std::shared_ptr<const SharedMemory> memory);
  void remove(std::uint64_t id);
  // Returns where `bytes` lie, if all of them lie in one segment.
  std::optional<Remote> find(Bytes bytes) const;
  std::optional<SharedRegion> share(Bytes bytes) const;
  const std::map<std::uint64_t, std::shared_ptr<const SharedMemory>>& segments() const {
    return segments_;
  }

 private:
  std::map<std::uint64_t, std::shared_ptr<const SharedMemory>> segments_;
  std::map<const std::byte*, std::uint64_t> by_address_;
};

}  // namespace paceline::transport
