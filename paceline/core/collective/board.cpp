#include "paceline/core/collective/board.h"

#include <array>
#include <atomic>
#include <cstring>

#include "paceline/core/base/half.h"
#include "paceline/core/collective/balanced_tree.h"
#include "paceline/core/collective/combine.h"

namespace paceline::collective {

// A short input lies in the line of its header, and arrives with it.
struct alignas(64) Board::Slot {
  std::atomic<std::uint64_t> sequence;
  std::uint64_t fingerprint;
  std::array<std::byte, kLongestInput> input;
};

struct Board::Page {
  alignas(64) std::atomic<std::uint32_t> asleep;
  std::array<Slot, 2> slots;
};

Result<std::shared_ptr<const transport::SharedMemory>> Board::make_page() {
  auto memory = transport::SharedMemory::create(sizeof(Page));
  if (!memory) return memory.error();
  return std::make_shared<const transport::SharedMemory>(std::move(*memory));
}

bool Board::is_page(const std::shared_ptr<const transport::SharedMemory>& memory) {
  return memory && memory->bytes().size() >= sizeof(Page);
}

Board::Board(int rank, std::vector<std::shared_ptr<const transport::SharedMemory>> pages)
    : rank_(rank), pages_(std::move(pages)) {
  // Sums of 16-bit types are held in f32, so that they are rounded once.
  if (ranks() > 2) partial_sums_.resize(2 * kLongestInputs);
}

Board::Page& Board::page(int rank) const {
  // The kernel's pages are aligned, and a new one is zero: no operation has number 0.
  return *reinterpret_cast<Page*>(pages_[static_cast<std::size_t>(rank)]->bytes().data());
}

const Board::Slot& Board::slot(int rank, std::uint64_t sequence) const {
  return page(rank).slots[sequence % 2];
}

void Board::post(std::uint64_t sequence, std::uint64_t fingerprint, Bytes input) {
  Slot& own = page(rank_).slots[sequence % 2];
  if (own.sequence.load(std::memory_order_relaxed) == sequence) return;
  own.fingerprint = fingerprint;
  if (!input.empty()) std::memcpy(own.input.data(), input.data(), input.size());
  own.sequence.store(sequence, std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before is_asleep looks
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

void Board::sum(std::uint64_t sequence, ReduceOp op, Buffer target, double factor) {
  std::vector<ConstBuffer> inputs;
  for (int rank = 0; rank < ranks(); ++rank)
    inputs.push_back({slot(rank, sequence).input.data(), target.count, target.dtype});
  const Dtype wide = is_half(target.dtype) ? Dtype::f32 : target.dtype;
  std::byte* free = partial_sums_.data();
  int left = ranks() - 1;
  balanced_sum(std::move(inputs), [&](ConstBuffer a, ConstBuffer b) {
    Buffer sum{free, target.count, wide};
    free += sum.size_bytes();
    const bool is_last = --left == 0;
    if (is_last) sum = target;
    combine(op, a, b, sum, is_last ? factor : 1.0);
    return ConstBuffer(sum);
  });
}

void Board::set_asleep(bool asleep) {
  page(rank_).asleep.store(asleep ? 1 : 0, std::memory_order_seq_cst);
}

bool Board::is_asleep(int rank) const {
  return page(rank).asleep.load(std::memory_order_seq_cst) != 0;
}

}  // namespace paceline::collective
