// Memory that all ranks of a group on one host map: outside of Paceline's own, so that what is
// measured does not measure itself.
#pragma once

#include <optional>

#include "paceline/core/collective/communicator.h"
#include "paceline/core/transport/shared_memory.h"

namespace paceline::measure {

class CommonMemory {
 public:
  // Zeroed. Every rank of the group must call it. Nothing, on every rank, when one of them cannot
  // map it: it is on another host, or in a container or another user's. THROWS Error (io).
  static std::optional<CommonMemory> create(Communicator& group, std::size_t bytes);

  MutableBytes bytes() const { return memory_.bytes().subspan(kFrontBytes); }
  // Counts the ranks that have arrived somewhere; nobody else uses it.
  std::int64_t& counter() const;

 private:
  static constexpr std::size_t kFrontBytes = 4096;

  explicit CommonMemory(transport::SharedMemory memory) : memory_(std::move(memory)) {}
  std::int64_t& front(std::size_t offset) const;

  transport::SharedMemory memory_;
};

}  // namespace paceline::measure
