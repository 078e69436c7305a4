#include "paceline/core/transport/socket/forks.h"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

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

}  // namespace

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

}  // namespace paceline::transport
