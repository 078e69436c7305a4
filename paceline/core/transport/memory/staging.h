// Staging: shared memory for payloads that lie in memory of the caller's own, so that a peer can
// read them in place: copied once, where the ring would copy twice and in portions.
//
// THREAD: reactor's driver only.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>

#include "paceline/core/base/bytes.h"
#include "paceline/core/transport/memory/shared_memory.h"

namespace paceline::transport {

class Staging {
 public:
  // Takes no memory from the system before the first copy.
  explicit Staging(std::size_t bytes) : size_(bytes) {}

  struct Piece {
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };
  // A copy of the payload in this memory; nothing while there is no room, or no memory.
  std::optional<Piece> copy(Bytes payload);
  void give_back(const Piece& piece);  // each piece once

  // Takes the memory, if the system gives it. The first copy does so, too.
  void prepare();
  // nullptr before.
  const std::shared_ptr<const SharedMemory>& memory() const { return memory_; }

 private:
  const std::size_t size_;
  std::shared_ptr<const SharedMemory> memory_;
  bool refused_ = false;
  std::map<std::size_t, std::size_t> free_;  // offset -> bytes; neighbours are joined
};

}  // namespace paceline::transport
