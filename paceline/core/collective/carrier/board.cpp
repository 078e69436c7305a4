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
  // The part that has this rank's number: which rank has taken it, and in which operation.
  alignas(64) std::atomic<std::uint64_t> part;
};

struct Board::Page {
  transport::RemoteMemory memory;
  alignas(64) std::atomic<std::uint32_t> asleep;
  alignas(64) transport::WritesForbidden writes_forbidden;
  alignas(64) transport::WriteUnderWay write_under_way;
  std::array<Slot, 2> slots;
};

namespace {

// The bytes of each input that are summed up at a time. Whole elements, however many ranks.
std::size_t longest_sum(int ranks) {
  constexpr std::size_t kLongestElement = 8;
  const std::size_t each = Board::kLongestInputs / static_cast<std::size_t>(ranks);
  return std::clamp(each / kLongestElement * kLongestElement, kLongestElement,
                    Board::kLongestInput);
}

// The state of a part. Those of earlier operations need no reset: they are less.
constexpr int kPartRankBits = 20;

std::uint64_t part_word(std::uint64_t sequence, int rank, bool is_done) {
  const std::uint64_t state = is_done ? 2 : 1;
  return (sequence << (kPartRankBits + 2)) | (state << kPartRankBits) |
         static_cast<std::uint64_t>(rank);
}

}  // namespace

std::size_t Board::page_bytes() {
  return sizeof(Page);
}

bool Board::is_page(const std::shared_ptr<const transport::SharedMemory>& memory) {
  return memory && memory->bytes().size() >= sizeof(Page);
}

void Board::initialize(MutableBytes page, const transport::RemoteMemory& own) {
  reinterpret_cast<Page*>(page.data())->memory = own;
}

Board::Board(int rank, std::vector<std::shared_ptr<const transport::SharedMemory>> pages)
    : rank_(rank), pages_(std::move(pages)), tree_sum_(ranks(), longest_sum(ranks())) {
  for (int r = 0; r < ranks(); ++r) {
    memories_.push_back(page(r).memory);
    reaches_all_ = reaches_all_ && (r == rank || transport::can_reach(memories_.back()));
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

MutableBytes Board::posted(int rank, std::uint64_t sequence) const {
  return slot(rank, sequence).input;
}

void Board::sum(std::uint64_t sequence, ReduceOp op, std::size_t first, Buffer target) {
  const double factor = op == ReduceOp::average ? 1.0 / ranks() : 1.0;
  const std::size_t element = size_of(target.dtype), longest = longest_sum(ranks()) / element;
  for (std::size_t at = 0; at < target.count; at += longest) {
    const std::size_t count = std::min(longest, target.count - at);
    inputs_.clear();
    for (int rank = 0; rank < ranks(); ++rank)
      inputs_.push_back(
          {slot(rank, sequence).input.data() + (first + at) * element, count, target.dtype});
    tree_sum_(op, inputs_, {target.data + at * element, count, target.dtype}, factor);
  }
}

bool Board::take_part(std::uint64_t sequence, int part) {
  auto& word = slot(part, sequence).part;
  std::uint64_t before = word.load(std::memory_order_relaxed);
  return before < part_word(sequence, 0, false) &&
         word.compare_exchange_strong(before, part_word(sequence, rank_, false));
}

void Board::end_part(std::uint64_t sequence, int part) {
  slot(part, sequence).part.store(part_word(sequence, rank_, true), std::memory_order_release);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // as for a post
  may_be_awaited_ = true;
  behind_ = -1;
}

Board::Part Board::part(std::uint64_t sequence, int part) const {
  const std::uint64_t word = slot(part, sequence).part.load(std::memory_order_acquire);
  if (word < part_word(sequence, 0, false)) return {};
  return {.rank = static_cast<int>(word & ((1 << kPartRankBits) - 1)),
          .is_done = word >= part_word(sequence, 0, true)};
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
  return transport::write_memory(memory_of(rank), page(rank).writes_forbidden,
                                 page(rank_).write_under_way, address, source);
}

bool Board::forbid_writes() {
  page(rank_).writes_forbidden.store(1);
  const auto deadline = Deadline::in(kPatience);
  bool ended = true;
  for (int writer = 0; writer < ranks(); ++writer) {
    if (writer == rank_) continue;
    ended = transport::end_write(memory_of(rank_), memory_of(writer), page(writer).write_under_way,
                                 deadline) &&
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
