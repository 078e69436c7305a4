// Board: short all_reduces and barriers of ranks that share memory, without messages.
//
// Each rank has a page that all others see. To take part in an operation it posts there what it
// calls, and its input. When all have posted, each reads all inputs and sums them up for itself, by
// the balanced tree in rank order: one way of a few cache lines, where messages take several
// hand-overs. It is the shared-memory form of a `direct` all_reduce (specification A9) in which
// every rank owns all chunks.
//
// Two slots take turns. Whoever posts operation k+2 has ended k+1, so every rank has begun k+1 and
// therefore ended k: nobody reads any more what it writes over.
//
// What peers write is compared with what is expected, and never used as a length or an address.
// THREAD: reactor's driver only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "paceline/core/base/reduce.h"
#include "paceline/core/transport/shared_memory.h"

namespace paceline::collective {

class Board {
 public:
  // Longer inputs travel as messages: here every rank reads all of all inputs.
  static constexpr std::size_t kLongestInput = 16 << 10;
  static constexpr std::size_t kLongestInputs = 64 << 10;  // of all ranks
  static bool takes(std::size_t input_bytes, int ranks) {
    return input_bytes <= kLongestInput &&
           input_bytes * static_cast<std::size_t>(ranks) <= kLongestInputs;
  }

  // This rank's page, to be shared with the others. A failure (no shared memory) names the limit.
  static Result<std::shared_ptr<const transport::SharedMemory>> make_page();

  // All ranks' pages, by rank. REQUIRES: each is as long as make_page() makes it.
  Board(int rank, std::vector<std::shared_ptr<const transport::SharedMemory>> pages);
  static bool is_page(const std::shared_ptr<const transport::SharedMemory>& memory);

  int ranks() const { return static_cast<int>(pages_.size()); }

  // Takes part in operation `sequence` of the group. REQUIRES: takes(input.size(), ranks()).
  void post(std::uint64_t sequence, std::uint64_t fingerprint, Bytes input);

  enum class State : std::uint8_t { some_missing, all_equal, differs };
  State state(std::uint64_t sequence, std::uint64_t fingerprint) const;
  bool has_posted(int rank, std::uint64_t sequence) const;

  // The sum of all ranks' inputs of an operation that is all_equal, times `factor`.
  void sum(std::uint64_t sequence, ReduceOp op, Buffer target, double factor);

  // A rank that sleeps must be woken by who posts.
  void set_asleep(bool asleep);
  bool is_asleep(int rank) const;

 private:
  struct Page;
  struct Slot;
  Page& page(int rank) const;
  const Slot& slot(int rank, std::uint64_t sequence) const;

  const int rank_;
  const std::vector<std::shared_ptr<const transport::SharedMemory>> pages_;
  std::vector<std::byte> partial_sums_;
};

}  // namespace paceline::collective
