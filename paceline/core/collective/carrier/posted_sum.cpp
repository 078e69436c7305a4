#include "paceline/core/collective/carrier/posted_sum.h"

#include <algorithm>
#include <cstring>

namespace paceline::collective {
namespace {

constexpr std::size_t kSumLine = 64;

}  // namespace

PostedSum::PostedSum(Board& board, int chunks, std::uint64_t sequence, const Request& request)
    : board_(board), sequence_(sequence), request_(request), chunks_(chunks) {}

// Whole lines but for the last chunk, so that vectors of the processor are whole.
std::size_t PostedSum::begin_of(int chunk) const {
  const std::size_t line = kSumLine / size_of(request_.call.dtype);
  const auto chunks = static_cast<std::size_t>(chunks_);
  const std::size_t lines = (request_.call.count + line - 1) / line;
  const std::size_t begin = (lines + chunks - 1) / chunks * line * static_cast<std::size_t>(chunk);
  return std::min(begin, request_.call.count);
}

Buffer PostedSum::chunk_at(int rank, int chunk) const {
  const std::size_t begin = begin_of(chunk);
  std::byte* const post = board_.posted(rank, sequence_).data();
  return {post + begin * size_of(request_.call.dtype), begin_of(chunk + 1) - begin,
          request_.call.dtype};
}

bool PostedSum::is_over(const Board& board, int chunks, std::uint64_t sequence) {
  for (int chunk = 0; chunk < chunks; ++chunk)
    if (!board.part(sequence, chunk).is_done) return false;
  return true;
}

// Ranks begin at different chunks, so that several of them seldom want the same one.
bool PostedSum::sum_up_what_is_left() {
  bool has_summed = false;
  for (int i = 0; i < chunks_; ++i) {
    const int chunk = (board_.rank() + i) % chunks_;
    if (!board_.take_part(sequence_, chunk)) continue;
    board_.sum(sequence_, request_.call.op, begin_of(chunk), chunk_at(board_.rank(), chunk));
    board_.end_part(sequence_, chunk);
    has_summed = true;
  }
  return has_summed && is_over(board_, chunks_, sequence_);
}

void PostedSum::take_sums() const {
  std::byte* target = request_.output.data;
  for (int chunk = 0; chunk < chunks_; ++chunk) {
    const Buffer sum = chunk_at(board_.part(sequence_, chunk).rank, chunk);
    if (sum.count == 0) break;
    std::memcpy(target, sum.data, sum.size_bytes());
    target += sum.size_bytes();
  }
}

CallProgress PostedSum::advance() {
  if (sum_up_what_is_left()) return CallProgress::moved;
  if (!is_over(board_, chunks_, sequence_)) return CallProgress::soon;
  take_sums();
  return CallProgress::done;
}

std::vector<int> PostedSum::awaited(const Board& board, int chunks, std::uint64_t sequence) {
  std::vector<int> ranks;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    const Board::Part part = board.part(sequence, chunk);
    const bool is_awaited = part.rank >= 0 && part.rank != board.rank() && !part.is_done;
    if (is_awaited && std::ranges::count(ranks, part.rank) == 0) ranks.push_back(part.rank);
  }
  std::ranges::sort(ranks);
  return ranks;
}

}  // namespace paceline::collective
