#include "paceline/core/server/sparse/row_store.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

namespace paceline::server {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kFirstIndex = 64;  // entries
constexpr std::size_t kSmallChunks = 4;  // of each arc, before whole pages of 2 MiB are taken
constexpr std::size_t kTagBits = 32;

constexpr std::size_t rounded_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

std::byte* map(std::size_t bytes) {
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

// Whole huge pages, the last ones of a mapping that is a page too long, so that the next ones lie
// below them. From the heap they would take twice as much: it writes before aligned memory, and the
// launcher lets the heap of servers have huge pages (GLIBC_TUNABLES).
std::byte* map_huge_pages(std::size_t bytes) {
  std::byte* const mapped = map(bytes + kHugePage);
  const std::size_t beyond = reinterpret_cast<std::uintptr_t>(mapped) % kHugePage;
  std::byte* const begin = mapped + (kHugePage - beyond);
  munmap(mapped, kHugePage - beyond);
  if (beyond > 0) munmap(begin + bytes, beyond);
  madvise(begin, bytes, MADV_HUGEPAGE);
  return begin;
}

// The first rows of each arc, which would take two huge pages otherwise.
std::byte* map_small_pages(std::size_t bytes) {
  std::byte* const memory = map(bytes);
  madvise(memory, bytes, MADV_NOHUGEPAGE);
  return memory;
}

}  // namespace

void RowStore::Freed::operator()(void* memory) const {
  if (mapped == 0) std::free(memory);
  else munmap(memory, mapped);
}

// All entries are 0.
RowStore::Memory<std::uint64_t> RowStore::index_of(std::size_t entries) {
  const std::size_t bytes = entries * sizeof(std::uint64_t);
  const bool large = bytes >= kHugePage;
  void* const memory = large ? map_huge_pages(bytes) : std::calloc(entries, sizeof(std::uint64_t));
  if (memory == nullptr) throw std::bad_alloc();
  return {static_cast<std::uint64_t*>(memory), large ? Freed{bytes} : Freed{}};
}

RowStore::RowStore(std::size_t row_bytes) : row_bytes_(row_bytes) {
  constexpr std::size_t kAlignment = 4;
  const std::size_t bytes = sizeof(std::uint64_t) + row_bytes;
  stride_ = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  chunk_rows_ = std::max<std::size_t>(kHugePage / stride_, 1);
  chunk_shift_ = static_cast<std::size_t>(std::bit_width(chunk_rows_ - 1));
  mask_ = kFirstIndex - 1;
  index_ = index_of(kFirstIndex);
}

std::size_t RowStore::memory() const {
  return (mask_ + 1) * sizeof(std::uint64_t) + chunks_.size() * stride_ * chunk_rows_;
}

const std::byte* RowStore::fetch_row(std::uint64_t hash) const {
  for (std::size_t i = home(hash);; i = (i + 1) & mask_) {
    const std::uint64_t entry = index_[i];
    if (entry == 0) return nullptr;
    if (static_cast<std::uint32_t>(entry) != tag_of(hash)) continue;
    constexpr std::size_t kLine = 64;
    const std::byte* const row = place((entry >> kTagBits) - 1);
    for (std::size_t at = 0; at < stride_; at += kLine) __builtin_prefetch(row + at, 1);
    __builtin_prefetch(row + stride_ - 1, 1);
    return row + sizeof(std::uint64_t);
  }
}

const std::byte* RowStore::find(std::uint64_t id, std::uint64_t hash) const {
  for (std::size_t i = home(hash);; i = (i + 1) & mask_) {
    const std::uint64_t entry = index_[i];
    if (entry == 0) return nullptr;
    if (static_cast<std::uint32_t>(entry) != tag_of(hash)) continue;
    const std::byte* const row = place((entry >> kTagBits) - 1);
    std::uint64_t own = 0;
    std::memcpy(&own, row, sizeof own);
    if (own == id) return row + sizeof own;
  }
}

std::byte* RowStore::add(std::uint64_t id, std::uint64_t hash) {
  if ((rows_ + 1) * 4 > (mask_ + 1) * 3) grow_index();
  if (rows_ == chunks_.size() * chunk_rows_) add_chunk();
  std::size_t i = home(hash);
  while (index_[i] != 0) i = (i + 1) & mask_;
  const std::size_t position = position_of(rows_++);
  index_[i] = static_cast<std::uint64_t>(position + 1) << kTagBits | tag_of(hash);
  std::byte* const row = place(position);
  std::memcpy(row, &id, sizeof id);
  return row + sizeof id;
}

void RowStore::remove(std::uint64_t id, std::uint64_t hash, std::uint64_t hash_of_last) {
  std::size_t hole = home(hash), position = 0;
  for (;; hole = (hole + 1) & mask_) {
    if (static_cast<std::uint32_t>(index_[hole]) != tag_of(hash)) continue;
    position = (index_[hole] >> kTagBits) - 1;
    std::uint64_t own = 0;
    std::memcpy(&own, place(position), sizeof own);
    if (own == id) break;
  }
  const std::size_t last = position_of(rows_ - 1);
  if (position != last) {
    index_[entry_at(last, hash_of_last)] =
        static_cast<std::uint64_t>(position + 1) << kTagBits | tag_of(hash_of_last);
    std::memcpy(place(position), place(last), stride_);
  }
  clear_entry(hole);
  --rows_;
  if (chunks_.size() > 1 && rows_ <= (chunks_.size() - 2) * chunk_rows_) chunks_.pop_back();
}

std::size_t RowStore::entry_at(std::size_t position, std::uint64_t hash) const {
  std::size_t i = home(hash);
  while (index_[i] >> kTagBits != position + 1) i = (i + 1) & mask_;
  return i;
}

// Entries behind it that would not be found any more close up.
void RowStore::clear_entry(std::size_t i) {
  for (std::size_t next = (i + 1) & mask_; index_[next] != 0; next = (next + 1) & mask_) {
    const std::size_t wanted = static_cast<std::uint32_t>(index_[next]) & mask_;
    if (((next - wanted) & mask_) < ((next - i) & mask_)) continue;
    index_[i] = index_[next];
    i = next;
  }
  index_[i] = 0;
}

void RowStore::add_chunk() {
  const std::size_t bytes = rounded_up(stride_ * chunk_rows_, kHugePage);
  const bool small = chunks_.size() < kSmallChunks;
  chunks_.emplace_back(small ? map_small_pages(bytes) : map_huge_pages(bytes), Freed{bytes});
}

std::uint64_t RowStore::id_of(std::size_t row) const {
  std::uint64_t id = 0;
  std::memcpy(&id, place(position_of(row)), sizeof id);
  return id;
}

void RowStore::grow_index() {
  const std::size_t entries = (mask_ + 1) * 2;
  const Memory<std::uint64_t> old = std::move(index_);
  const std::size_t old_entries = std::exchange(mask_, entries - 1) + 1;
  index_ = index_of(entries);
  for (std::size_t at = 0; at < old_entries; ++at) {
    if (old[at] == 0) continue;
    std::size_t i = static_cast<std::uint32_t>(old[at]) & mask_;
    while (index_[i] != 0) i = (i + 1) & mask_;
    index_[i] = old[at];
  }
}

}  // namespace paceline::server
