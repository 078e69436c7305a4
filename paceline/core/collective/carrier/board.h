// Board: ranks that share memory meet on it without messages.
//
// Each rank has a page that all others see. To take part in an operation it posts there its call,
// and its input or the place of that. When all have posted the same call, every rank knows that all
// are bound to carry it out. Of short inputs each rank sums up all for itself (sum), the
// shared-memory form of a `direct` all_reduce (docs/algorithms/direct.md) in which every rank owns
// all chunks. Where many ranks make that too much, some of them do it (posted_sum.h). Long inputs
// are a SharedReduction, whose ranks count their progress on the board.
//
// Two slots take turns. A rank that posts operation k+2 has ended k+1, so every rank has begun k+1
// and therefore ended k: no rank reads any more the slot that it writes over.
//
// Posts of peers are only compared with the expected ones, and never used as a length or an
// address. THREAD: reactor's driver only.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "paceline/core/collective/carrier/tree_sum.h"
#include "paceline/core/transport/memory/process_memory.h"
#include "paceline/core/transport/memory/shared_memory.h"

namespace paceline::collective {

class Board {
 public:
  static constexpr std::size_t kLongestInput = 4 << 10;  // that lies in a post
  static bool holds(std::size_t input_bytes) { return input_bytes <= kLongestInput; }
  // Whether each rank sums up all inputs: it reads no more than kLongestInputs then, where a look at
  // a post counts as kLook, which is how long the look takes.
  static constexpr std::size_t kLongestInputs = 64 << 10, kLook = 2 << 10;
  static bool each_sums_up(std::size_t input_bytes, int ranks) {
    const std::size_t looks = (input_bytes + kLook) * static_cast<std::size_t>(ranks);
    return input_bytes == 0 || (holds(input_bytes) && looks <= kLongestInputs);
  }

  static std::size_t page_bytes();  // of each rank's page
  static bool is_page(const std::shared_ptr<const transport::SharedMemory>& memory);

  // Says on a new page, before others see it, where its rank's memory is found.
  static void initialize(MutableBytes page, const transport::RemoteMemory& own);

  // All ranks' pages, by rank. REQUIRES: each is_page, and new.
  Board(int rank, std::vector<std::shared_ptr<const transport::SharedMemory>> pages);

  int rank() const { return rank_; }
  int ranks() const { return static_cast<int>(pages_.size()); }

  // Takes part in operation `sequence` of the group. REQUIRES: input.size() <= kLongestInput.
  void post(std::uint64_t sequence, std::uint64_t fingerprint, Bytes input);
  // The bytes that `rank` has posted for operation `sequence`, and bytes without meaning after
  // them. Other ranks may read those of this rank.
  MutableBytes posted(int rank, std::uint64_t sequence) const;

  enum class State : std::uint8_t { some_missing, all_equal, differs };
  State state(std::uint64_t sequence, std::uint64_t fingerprint) const;
  bool has_posted(int rank, std::uint64_t sequence) const;

  // Reduces all ranks' inputs of an operation that is all_equal, from element `first` on. The target
  // may be one of the inputs.
  void sum(std::uint64_t sequence, ReduceOp op, std::size_t first, Buffer target);

  // The work of an operation that is all_equal may be cut into parts, no more than there are ranks.
  // Each rank may take a part; false: another rank has it. The rank that took it tells its end.
  bool take_part(std::uint64_t sequence, int part);
  void end_part(std::uint64_t sequence, int part);
  struct Part {
    int rank = -1;  // that has taken it; -1: nobody
    bool is_done = false;
  };
  Part part(std::uint64_t sequence, int part) const;

  // Counts the progress of the ranks in an operation that is all_equal, each from zero.
  enum class Counter : std::uint8_t { staged, reduced, taken, found };
  // `counting`: only that many ranks count, those with the lowest numbers; 0: all ranks do.
  void count(std::uint64_t sequence, Counter counter, std::uint64_t value, int counting = 0);
  std::uint64_t counted(int rank, std::uint64_t sequence, Counter counter) const;

  // The place of the rank's memory, as the rank posted it when this began.
  const transport::RemoteMemory& memory_of(int rank) const {
    return memories_[static_cast<std::size_t>(rank)];
  }
  // Whether this rank can read and write the memory of all others.
  bool reaches_all() const { return reaches_all_; }
  // Writes into the memory of `rank`; false: it cannot, or may not any more.
  bool write(int rank, std::uint64_t address, Bytes source);
  // Once this has returned, nobody writes into this rank's memory. False: a writer that the system
  // has not let finish its copy in kPatience still may.
  static constexpr std::chrono::seconds kPatience{5};
  bool forbid_writes();
  bool forbids_writes(int rank) const;  // whether it has begun to

  // A rank that sleeps must be woken by who posts or counts, where that may be what it waits for:
  // the last post of an operation, one that differs, or a count that leaves no rank behind; of one
  // that leaves one behind, that rank alone. If each post woke all, a call of p ranks would take
  // p * p wake-ups.
  bool may_be_awaited() const { return may_be_awaited_; }
  bool may_be_awaited_by(int rank) const {
    return may_be_awaited_ && (behind_ < 0 || behind_ == rank);
  }
  void set_asleep(bool asleep);
  bool is_asleep(int rank) const;

 private:
  struct Page;
  struct Slot;
  Page& page(int rank) const;
  Slot& slot(int rank, std::uint64_t sequence) const;

  const int rank_;
  const std::vector<std::shared_ptr<const transport::SharedMemory>> pages_;
  std::vector<transport::RemoteMemory> memories_;
  bool reaches_all_ = true;
  bool may_be_awaited_ = false;  // what this rank has posted or counted last
  int behind_ = -1;              // by this rank alone; -1: by any
  std::vector<ConstBuffer> inputs_;
  TreeSum tree_sum_;
};

}  // namespace paceline::collective
