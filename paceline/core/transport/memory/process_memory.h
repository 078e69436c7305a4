// The memory of another process of this host, read and written without its help where the system
// allows it (process_vm_readv, process_vm_writev): to the same user, unless something like Yama's
// ptrace_scope or a filter of system calls forbids it.
//
// A write can be forbidden by whom it concerns, at any moment. The system takes from the writer's
// memory where it shall write, when its call begins; here that word lies in memory that both share,
// and who forbids the write empties it. A writer that was stopped on its way to the call writes
// nothing when it goes on. One that is in the call is waited for: it copies, and no signal stops it
// there.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/deadline.h"

namespace paceline::transport {

// The address of a process's memory for others. The token lies at `address` in that process alone:
// in another namespace the number may be another process's.
struct RemoteMemory {
  std::int64_t process = 0;
  std::uint64_t address = 0, token = 0;
};

// This process's memory for others, the same for its whole life: a peer may still probe its address
// after the group has closed.
RemoteMemory own_remote_memory();

// Whether memory there can be read and written: reads the token, and writes it back.
bool can_reach(const RemoteMemory& memory);

// Whether the system keeps this process out of that memory, though its process lives.
bool is_forbidden(const RemoteMemory& memory);

// Whether others may still reach this process's memory as they could when it began: a process that
// calls prctl(PR_SET_DUMPABLE, 0) or changes its user forbids it.
bool own_memory_is_reachable();

// All of `target` from there on, or false: it may not be read, or is there no more. COST: about
// 0.1 us a page of memory besides the copy.
bool read_memory(const RemoteMemory& memory, std::uint64_t address, MutableBytes target);

// The write of a writer at this moment, in memory that it shares with the receivers; zero when new.
// A writer has one write at a time.
struct WriteUnderWay {
  iovec target;
  std::atomic<std::int64_t> receiver;  // its process; 0: no write
  std::atomic<std::int64_t> thread;    // the writer's
};

// In the memory of each receiver, shared with its writers; zero when new.
using WritesForbidden = std::atomic<std::uint32_t>;

// Writes all of `source` there, or false: it is forbidden, or may not be written, or is there no
// more. False may leave a part written.
bool write_memory(const RemoteMemory& receiver, const WritesForbidden& forbidden,
                  WriteUnderWay& under_way, std::uint64_t address, Bytes source);

// The receiver, who has set `forbidden`, calls it for each writer: once this has returned true,
// none of the writer's bytes arrives here. False: it still copies when the deadline passes.
bool end_write(const RemoteMemory& receiver, const RemoteMemory& writer, WriteUnderWay& under_way,
               Deadline deadline);

}  // namespace paceline::transport
