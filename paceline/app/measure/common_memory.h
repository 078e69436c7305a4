// Memory that all ranks of a group on one host map. It is separate from Paceline's own shared
// memory, so that the measurement does not depend on the code it measures.
#pragma once

#include <optional>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/transport/memory/shared_memory.h"

namespace paceline::measure {

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

}  // namespace paceline::measure
