#include "paceline/core/transport/memory/process_memory.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <random>
#include <string>
#include <thread>

namespace paceline::transport {
namespace {

std::uint64_t random_token() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);
}

bool is_whole(ssize_t copied, std::size_t bytes) {
  return copied >= 0 && static_cast<std::size_t>(copied) == bytes;
}

bool write_at(std::int64_t process, const iovec& there, Bytes source) {
  const iovec here{const_cast<std::byte*>(source.data()), source.size()};
  return is_whole(::process_vm_writev(static_cast<pid_t>(process), &here, 1, &there, 1, 0),
                  source.size());
}

// A thread that sleeps, was stopped or has ended (and is listed no more) does not copy: a copy that
// waits, for a page or a lock, cannot be interrupted ('D').
bool may_copy(std::int64_t process, std::int64_t thread) {
  std::ifstream file(fmt::format("/proc/{}/task/{}/stat", process, thread));
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= line.size())
    return ::access("/proc/self/stat", R_OK) != 0;
  return line[name_end + 2] == 'R' || line[name_end + 2] == 'D';
}

}  // namespace

RemoteMemory own_remote_memory() {
  // It is never freed, not even when the library is unloaded.
  static const std::uint64_t* const token = new std::uint64_t(random_token());
  return {::getpid(), reinterpret_cast<std::uint64_t>(token), *token};
}

bool can_reach(const RemoteMemory& memory) {
  std::uint64_t found = 0;
  const auto bytes = std::as_writable_bytes(std::span(&found, 1));
  return memory.process > 0 && read_memory(memory, memory.address, bytes) &&
         found == memory.token &&
         write_at(memory.process, {pointer(memory.address), bytes.size()}, bytes);  // what is there
}

bool is_forbidden(const RemoteMemory& memory) {
  std::uint64_t found = 0;
  errno = 0;
  return !read_memory(memory, memory.address, std::as_writable_bytes(std::span(&found, 1))) &&
         errno == EPERM;
}

bool own_memory_is_reachable() {
  return ::prctl(PR_GET_DUMPABLE) == 1;
}

bool read_memory(const RemoteMemory& memory, std::uint64_t address, MutableBytes target) {
  const iovec here{target.data(), target.size()}, there{pointer(address), target.size()};
  return is_whole(::process_vm_readv(static_cast<pid_t>(memory.process), &here, 1, &there, 1, 0),
                  target.size());
}

bool write_memory(const RemoteMemory& receiver, const WritesForbidden& forbidden,
                  WriteUnderWay& under_way, std::uint64_t address, Bytes source) {
  under_way.target.iov_base = pointer(address);
  std::atomic_ref(under_way.target.iov_len).store(source.size());
  under_way.thread.store(::syscall(SYS_gettid));
  // Announced before it looks whether it may, as who forbids does so before looking for writes.
  under_way.receiver.store(receiver.process);
  const bool whole = forbidden.load() == 0 && write_at(receiver.process, under_way.target, source);
  under_way.receiver.store(0);
  return whole;
}

bool end_write(const RemoteMemory& receiver, const RemoteMemory& writer, WriteUnderWay& under_way,
               Deadline deadline) {
  if (under_way.receiver.load() != receiver.process) return true;
  std::atomic_ref(under_way.target.iov_len).store(0);
  while (under_way.receiver.load() == receiver.process &&
         may_copy(writer.process, under_way.thread.load())) {
    if (deadline.passed()) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

}  // namespace paceline::transport
