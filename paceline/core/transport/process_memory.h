// The memory of another process of this host, read without its help where the system allows it
// (process_vm_readv): to the same user, unless something like Yama's ptrace_scope or a filter of
// system calls forbids it.
#pragma once

#include <cstdint>
#include <memory>

#include "paceline/core/base/bytes.h"

namespace paceline::transport {

// Where a process's memory is found by others. The token lies at `address` in that process alone:
// in another namespace the number may be somebody else's.
struct MemoryDoor {
  std::int64_t process = 0;
  std::uint64_t address = 0, token = 0;
};

// A door of this process, as long as it lives.
class OwnMemoryDoor {
 public:
  OwnMemoryDoor();
  MemoryDoor door() const;

 private:
  std::unique_ptr<const std::uint64_t> token_;
};

bool can_read(const MemoryDoor& door);

// All of `target` from there on, or false: it may not be read, or is there no more. COST: about
// 0.1 us a page of memory besides the copy.
bool read_memory(const MemoryDoor& door, std::uint64_t address, MutableBytes target);

}  // namespace paceline::transport
