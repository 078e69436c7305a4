#include "paceline/core/transport/socket/file_descriptor.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "paceline/core/base/number.h"

namespace paceline::transport {
namespace {

// The kernel has one list of descriptors for a process, and pthread_atfork calls a function without
// arguments: so the marks are the process's, too. A child's first steps may take no lock and
// allocate nothing, because a thread that it does not have may have been in the middle of that.
constexpr std::size_t kBits = 64, kMarked = std::size_t{1} << 20;  // the kernel's usual limit
std::array<std::atomic<std::uint64_t>, kMarked / kBits> marks;
std::atomic<std::size_t> words_used = 0;
std::atomic<unsigned> forks_so_far = 0;

void begin_child() {
  ++forks_so_far;
  for (std::size_t word = 0; word < words_used; ++word) {
    const std::uint64_t marked = marks[word].exchange(0);
    for (std::size_t bit = 0; bit < kBits; ++bit) {
      if ((marked >> bit & 1) != 0) ::close(static_cast<int>(word * kBits + bit));
    }
  }
}

// Those with numbers below `limit`; all of them are taken where none is left to look with.
std::size_t open_files(std::size_t limit) {
  std::error_code error;
  std::filesystem::directory_iterator entry("/proc/self/fd", error);
  if (error == std::errc::too_many_files_open) return limit;
  if (error) return 0;
  std::size_t open = 0;
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const auto number = number_in<std::size_t>(entry->path().filename().string());
    open += number && *number < limit ? 1 : 0;
  }
  return open - 1;  // the directory was one of them
}

}  // namespace

void FileDescriptor::close_in_children() {
  owner_ = forks();
  transport::close_in_children(fd_, true);
}

int FileDescriptor::release() {
  const int fd = std::exchange(fd_, -1);
  const auto owner = std::exchange(owner_, {});
  if (fd < 0 || !owner) return fd;
  if (*owner != forks()) return -1;
  transport::close_in_children(fd, false);
  return fd;
}

void FileDescriptor::reset() {
  if (const int fd = release(); fd >= 0) ::close(fd);
}

void watch_forks() {
  [[maybe_unused]] static const int watched = ::pthread_atfork(nullptr, nullptr, begin_child);
}

unsigned forks() {
  return forks_so_far.load(std::memory_order_relaxed);
}

void close_in_children(int fd, bool closes) {
  const auto number = static_cast<std::size_t>(fd);
  if (number >= kMarked) return;
  const std::size_t word = number / kBits;
  const std::uint64_t bit = std::uint64_t{1} << number % kBits;
  std::size_t used = words_used;
  while (closes && used <= word && !words_used.compare_exchange_weak(used, word + 1)) {
  }
  if (closes) marks[word].fetch_or(bit);
  else marks[word].fetch_and(~bit);
}

Result<> make_room_for_files(std::size_t more, std::string_view who) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return Done{};
  const std::size_t open = open_files(limit.rlim_cur), need = open + more;
  if (need <= limit.rlim_cur) return Done{};
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (need <= limit.rlim_max) return Done{};
  return Failure{
      Fault::io,
      fmt::format("{} needs {} open files ({} are open, and {} more are to come), and its "
                  "limit is {} (RLIMIT_NOFILE): raise it before the start, such as by "
                  "`ulimit -n {}`, LimitNOFILE= of systemd or --ulimit nofile= of docker",
                  who, need, open, more, limit.rlim_max,
                  std::bit_ceil(std::max<std::size_t>(need, 512)) * 2),
      {}};
}

}  // namespace paceline::transport
