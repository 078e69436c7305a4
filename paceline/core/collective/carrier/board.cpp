#include "paceline/core/collective/carrier/board.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

namespace paceline::collective {

// A short input lies in the line of its header, and arrives with it.
struct alignas(64) Board::Slot {
  std::atomic<std::uint64_t> sequence;
  std::uint64_t fingerprint;
  std::array<std::byte, kLongestInput> input;
  alignas(64) std::array<std::atomic<std::uint64_t>, 4> counters;
};

struct Board::Page {
  transport::RemoteMemory door;
  alignas(64) std::atomic<std::uint32_t> asleep;
  alignas(64) transport::WritesForbidden writes_forbidden;
  alignas(64) transport::WriteUnderWay write_under_way;
  std::array<Slot, 2> slots;
};

std::size_t Board::page_bytes() {
  return sizeof(Page);
}

bool Board::is_page(const std::shared_ptr<const transport::SharedMemory>& memory) {
  return memory && memory->bytes().size() >= sizeof(Page);
}

void Board::initialize(MutableBytes page, const transport::RemoteMemory& door) {
  reinterpret_cast<Page*>(page.data())->door = door;
}

Board::Board(int rank, std::vector<std::shared_ptr<const transport::SharedMemory>> pages)
    : rank_(rank),
      pages_(std::move(pages)),
      tree_sum_(ranks(), std::min(kLongestInput, kLongestInputs / pages_.size())) {
  for (int r = 0; r < ranks(); ++r) {
    doors_.push_back(page(r).door);
    reaches_all_ = reaches_all_ && (r == rank || transport::can_reach(doors_.back()));
  }
}

Board::Page& Board::page(int rank) const {
  // The kernel's pages are aligned, and a new one is zero: no operation has number 0.
  return *reinterpret_cast<Page*>(pages_[static_cast<std::size_t>(rank)]->bytes().data());
}

Board::Slot& Board::slot(int rank, std::uint64_t sequence) const {
  return page(rank).slots[sequence % 2];
}

void Board::post(std::uint64_t sequence, std::uint64_t fingerprint, Bytes input) {
  Slot& own = slot(rank_, sequence);
  if (own.sequence.load(std::memory_order_relaxed) == sequence) return;
  own.fingerprint = fingerprint;
  for (auto& counter : own.counters) counter.store(0, std::memory_order_relaxed);
  if (!input.empty()) std::memcpy(own.input.data(), input.data(), input.size());
  own.sequence.store(sequence, std::memory_order_release);
  // Before this rank looks who has posted and who sleeps: the last one sees that it is the last.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  may_be_awaited_ = state(sequence, fingerprint) != State::some_missing;
  behind_ = -1;
}

bool Board::has_posted(int rank, std::uint64_t sequence) const {
  return slot(rank, sequence).sequence.load(std::memory_order_acquire) == sequence;
}

Board::State Board::state(std::uint64_t sequence, std::uint64_t fingerprint) const {
  State state = State::all_equal;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (!has_posted(rank, sequence)) state = State::some_missing;
    else if (slot(rank, sequence).fingerprint != fingerprint) return State::differs;
  }
  return state;
}

Bytes Board::posted(int rank, std::uint64_t sequence) const {
  return slot(rank, sequence).input;
}

void Board::sum(std::uint64_t sequence, ReduceOp op, Buffer target, double factor) {
  inputs_.clear();
  for (int rank = 0; rank < ranks(); ++rank)
    inputs_.push_back({slot(rank, sequence).input.data(), target.count, target.dtype});
  tree_sum_(op, inputs_, target, factor);
}

void Board::count(std::uint64_t sequence, Counter counter, std::uint64_t value, int counting) {
  slot(rank_, sequence)
      .counters[static_cast<std::size_t>(counter)]
      .store(value, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);                // as for a post
  const std::uint64_t least = counter == Counter::found ? 1 : value;  // it is no progress
  const int last = counting > 0 ? counting : ranks();
  int behind = 0;
  behind_ = -1;
  for (int rank = 0; rank < last && behind < 2; ++rank) {
    if (counted(rank, sequence, counter) >= least) continue;
    ++behind;
    behind_ = rank;
  }
  // Staged and taken pieces are not every rank's: who never counts there is not behind.
  const bool all_count = counter == Counter::reduced || counter == Counter::found;
  if (!all_count) behind_ = -1;
  may_be_awaited_ = !all_count || behind < 2;
}

std::uint64_t Board::counted(int rank, std::uint64_t sequence, Counter counter) const {
  return slot(rank, sequence)
      .counters[static_cast<std::size_t>(counter)]
      .load(std::memory_order_acquire);
}

bool Board::write(int rank, std::uint64_t address, Bytes source) {
  return transport::write_memory(door(rank), page(rank).writes_forbidden,
                                 page(rank_).write_under_way, address, source);
}

bool Board::forbid_writes() {
  page(rank_).writes_forbidden.store(1);
  const auto deadline = Deadline::in(kPatience);
  bool ended = true;
  for (int writer = 0; writer < ranks(); ++writer) {
    if (writer == rank_) continue;
    ended =
        transport::end_write(door(rank_), door(writer), page(writer).write_under_way, deadline) &&
        ended;
  }
  return ended;
}

bool Board::forbids_writes(int rank) const {
  return page(rank).writes_forbidden.load() != 0;
}

void Board::set_asleep(bool asleep) {
  page(rank_).asleep.store(asleep ? 1 : 0, std::memory_order_seq_cst);
}

bool Board::is_asleep(int rank) const {
  return page(rank).asleep.load(std::memory_order_seq_cst) != 0;
}

}  // namespace paceline::collective
