#include "paceline/core/transport/process_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <random>

namespace paceline::transport {
namespace {

std::uint64_t random_token() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace

OwnMemoryDoor::OwnMemoryDoor() : token_(std::make_unique<const std::uint64_t>(random_token())) {}

MemoryDoor OwnMemoryDoor::door() const {
  return {::getpid(), reinterpret_cast<std::uint64_t>(token_.get()), *token_};
}

bool can_read(const MemoryDoor& door) {
  std::uint64_t found = 0;
  return door.process > 0 &&
         read_memory(door, door.address, std::as_writable_bytes(std::span(&found, 1))) &&
         found == door.token;
}

bool read_memory(const MemoryDoor& door, std::uint64_t address, MutableBytes target) {
  const iovec here{target.data(), target.size()};
  const iovec there{reinterpret_cast<void*>(address), target.size()};
  const ssize_t read = ::process_vm_readv(static_cast<pid_t>(door.process), &here, 1, &there, 1, 0);
  return read >= 0 && static_cast<std::size_t>(read) == target.size();
}

}  // namespace paceline::transport
