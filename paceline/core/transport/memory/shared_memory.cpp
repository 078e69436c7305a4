#include "paceline/core/transport/memory/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "paceline/core/transport/memory/available_memory.h"

namespace paceline::transport {
namespace {

constexpr unsigned kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Failure refused(std::size_t bytes, std::string_view call, int error) {
  std::string_view remedy = "free memory or use smaller buffers";
  if (error == EMFILE || error == ENFILE) remedy = "raise the limit of open files (`ulimit -n`)";
  if (error == EFBIG) remedy = "raise the limit of file sizes (`ulimit -f unlimited`)";
  if (error == ENOMEM)
    remedy = "raise the limit of address space (`ulimit -v unlimited`) or free memory";
  if (error == EPERM || error == ENOSYS) remedy = "let the sandbox permit memfd_create";
  return {
      Fault::io,
      fmt::format(
          "cannot have {} bytes of shared memory: {}: {}; {}, or run with PACELINE_TRANSPORT=tcp",
          bytes, call, std::strerror(error), remedy),
      {}};
}

// Going over RLIMIT_FSIZE raises SIGXFSZ, whose default kills the process: ask first.
bool above_file_size_limit(std::size_t bytes) {
  rlimit limit = {};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         bytes > limit.rlim_cur;
}

std::size_t page_size() {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

// Rounds up to whole pages.
std::uint64_t whole(std::uint64_t bytes) {
  return (bytes + page_size() - 1) / page_size() * page_size();
}

}  // namespace

SharedMemory::SharedMemory(FileDescriptor fd, std::byte* data, std::size_t size, std::size_t length)
    : fd_(std::move(fd)), data_(data), size_(size), length_(length) {}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      length_(other.length_),
      is_shared_(other.is_shared_) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) ::munmap(data_, size_);
    fd_ = std::move(other.fd_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    length_ = other.length_;
    is_shared_ = other.is_shared_;
  }
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Result<SharedMemory> SharedMemory::create(std::size_t bytes, const char* name) {
  // fallocate takes what there is and may leave the rest to the out-of-memory killer.
  if (bytes > available_memory()) return refused(bytes, "available memory", ENOMEM);
  const std::size_t size = whole(std::max<std::size_t>(bytes, 1));
  if (above_file_size_limit(size)) return refused(size, "RLIMIT_FSIZE", EFBIG);
  FileDescriptor fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.is_open()) return refused(size, "memfd_create", errno);
  ::fchmod(fd.get(), 0600);
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
    return refused(size, "ftruncate", errno);
  if (::fallocate(fd.get(), 0, 0, static_cast<off_t>(size)) != 0)
    return refused(size, "fallocate", errno);
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return refused(size, "F_ADD_SEALS", errno);
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return refused(size, "mmap", errno);
  return SharedMemory(std::move(fd), static_cast<std::byte*>(data), size, bytes);
}

Result<SharedMemory> SharedMemory::attach(FileDescriptor fd, std::size_t bytes) {
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  struct stat status = {};
  if (seals < 0 || (static_cast<unsigned>(seals) & kSeals) != kSeals ||
      ::fstat(fd.get(), &status) != 0 || static_cast<std::size_t>(status.st_size) != bytes ||
      bytes == 0) {
    return Failure{
        Fault::io, "a peer offered memory that is not sealed or not as long as it said", {}};
  }
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) return refused(bytes, "mmap of a peer's memory", errno);
  return SharedMemory(FileDescriptor(), static_cast<std::byte*>(data), bytes, bytes);
}

Extent SharedMemory::whole_pages(Extent part) const {
  const std::uint64_t end = part.end >= length_ ? part.end : part.end / page_size() * page_size();
  const Extent pages{whole(part.begin), end};
  return pages.is_empty() ? Extent{} : pages;
}

bool SharedMemory::take_back(Extent pages) const {
  is_shared_ = false;
  const std::size_t bytes = whole(pages.end) - pages.begin;
  void* const own =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (own == MAP_FAILED) return false;
  std::memcpy(own, data_ + pages.begin, bytes);
  // The system itself: UCX, once loaded, puts a function in the place of ::mremap that loses the new
  // address.
  if (::syscall(SYS_mremap, own, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                data_ + pages.begin) != -1)
    return true;
  ::munmap(own, bytes);
  return false;
}

}  // namespace paceline::transport
