// A start line: ranks wait here for each other and leave at one moment.
#pragma once

#include <cstdint>
#include <optional>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/transport/memory/shared_memory.h"

namespace paceline::measure {

// Memory that all ranks of a group on one host map. It is separate from Paceline's own shared
// memory, so that the measurement does not depend on the code it measures.
class CommonMemory {
 public:
  // Makes zeroed memory. Every rank of the group must call it. Empty on every rank when one of them
  // cannot map it, because it is on another host, in a container, or another user's. THROWS Error
  // (io).
  static std::optional<CommonMemory> create(Communicator& group, std::size_t bytes);

  MutableBytes bytes() const { return memory_.bytes().subspan(kFrontBytes); }
  // Counts the ranks that have arrived at a start line, which alone uses it.
  std::int64_t& counter() const;

 private:
  static constexpr std::size_t kFrontBytes = 4096;

  explicit CommonMemory(transport::SharedMemory memory) : memory_(std::move(memory)) {}
  std::int64_t& front(std::size_t offset) const;

  transport::SharedMemory memory_;
};

// Spins on the common memory (yielding where there are more ranks than processors), so that nothing
// of Paceline is in it; without common memory it is the group's barrier.
class StartLine {
 public:
  // Both must outlive it; `memory` may be nullptr.
  StartLine(Communicator& group, const CommonMemory* memory);

  // THROWS Error (timed_out) when a rank does not come for ten minutes.
  void wait();

 private:
  Communicator& group_;
  std::int64_t* counter_;
  std::int64_t target_ = 0;
  const bool yields_;
};

}  // namespace paceline::measure
