#include "paceline/core/transport/memory/private_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "paceline/core/transport/memory/available_memory.h"

namespace paceline::transport {
namespace {

constexpr std::size_t kHugePage = 2 << 20;

Failure refused_memory(std::size_t bytes, std::string_view call, int error) {
  return {
      Fault::io,
      fmt::format("cannot have {} bytes of memory: {}: {}; free memory, use smaller buffers, or "
                  "raise the limit of address space (`ulimit -v unlimited`)",
                  bytes, call, std::strerror(error)),
      {}};
}

std::size_t up_to(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// `size` bytes from a multiple of `alignment` on; nullptr: errno says why.
std::byte* mapped(std::size_t size, std::size_t alignment, std::size_t page) {
  const std::size_t whole = size + alignment - page;
  void* const at =
      ::mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  std::byte* const begin = static_cast<std::byte*>(at);
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  const std::size_t before = up_to(address, alignment) - address, after = whole - before - size;
  if (before > 0) ::munmap(begin, before);
  if (after > 0) ::munmap(begin + before + size, after);
  return begin + before;
}

// Kernels before 5.14 cannot be asked to.
void commit(std::byte* data, std::size_t size, std::size_t page) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE
  if (::madvise(data, size, kPopulateWrite) == 0) return;
  for (std::size_t at = 0; at < size; at += page)
    *static_cast<volatile std::byte*>(data + at) = std::byte{0};
}

}  // namespace

Result<PrivateMemory> PrivateMemory::create(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (bytes > available_memory()) return refused_memory(bytes, "available memory", ENOMEM);
  const bool is_long = bytes >= kHugePage;
  const std::size_t size = up_to(std::max<std::size_t>(bytes, 1), page);
  std::byte* const data = mapped(size, is_long ? kHugePage : page, page);
  if (data == nullptr) return refused_memory(size, "mmap", errno);
  if (is_long) ::madvise(data, size, MADV_HUGEPAGE);  // where there are none, pages are small
  commit(data, size, page);
  return PrivateMemory(data, size);
}

PrivateMemory::PrivateMemory(PrivateMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

PrivateMemory& PrivateMemory::operator=(PrivateMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

PrivateMemory::~PrivateMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace paceline::transport
