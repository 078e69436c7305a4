// Sees every allocation of a thread that watches, for readers of hostile files, which must take no
// more memory than the file's length allows.
//
// It replaces operator new and delete for the whole executable: one file of a room includes it.
#pragma once

#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace paceline::test {

// The memory that operator new gave and delete took back since a thread began to watch.
struct WatchedAllocations {
  bool is_watched = false;
  std::size_t most = 0;     // a larger allocation is refused
  std::size_t largest = 0;  // that was asked for
  std::int64_t live = 0, peak = 0;
};
inline thread_local WatchedAllocations watched_allocations;

inline void* watched_allocate(std::size_t bytes) {
  WatchedAllocations& seen = watched_allocations;
  if (seen.is_watched) seen.largest = std::max(seen.largest, bytes);
  void* const memory =
      seen.is_watched && bytes > seen.most ? nullptr : std::malloc(std::max<std::size_t>(bytes, 1));
  if (memory == nullptr) throw std::bad_alloc();
  if (seen.is_watched) {
    seen.live += static_cast<std::int64_t>(::malloc_usable_size(memory));
    seen.peak = std::max(seen.peak, seen.live);
  }
  return memory;
}

inline void watched_release(void* memory) noexcept {
  if (watched_allocations.is_watched && memory != nullptr)
    watched_allocations.live -= static_cast<std::int64_t>(::malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace paceline::test

// Sanitizers bring all forms, of which these and those of arrays must each fit together, and go on
// to see the malloc above.
void* operator new(std::size_t bytes) {
  return paceline::test::watched_allocate(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return paceline::test::watched_allocate(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept {
  paceline::test::watched_release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  paceline::test::watched_release(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  paceline::test::watched_release(memory);
}
