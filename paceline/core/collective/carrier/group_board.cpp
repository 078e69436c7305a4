#include "paceline/core/collective/carrier/group_board.h"

#include <fmt/format.h>

#include "paceline/core/base/log.h"

namespace paceline::collective {
namespace {

// The segments of pages, by group. Numbers of segments that callers allocate are small.
constexpr std::uint64_t kPages = std::uint64_t{1} << 63;

}  // namespace

// Nothing is shared where the system refuses.
void GroupBoard::open() {
  is_open_ = members_.size() > 1;
  if (!is_open_) return;
  was_reachable_ = transport::own_memory_is_reachable();
  auto memory = transport::SharedMemory::create(Board::page_bytes());
  if (!memory) return members_.generation().withhold(kPages | group_);
  Board::initialize(memory->bytes(), transport::own_remote_memory());
  own_page_ = std::make_shared<const transport::SharedMemory>(std::move(*memory));
  members_.generation().share(kPages | group_, own_page_);
}

void GroupBoard::close() {
  leave();
  if (is_open_) members_.generation().unshare(kPages | group_);
  is_open_ = false;
  own_page_.reset();
}

std::vector<int> GroupBoard::awaited_pages() const {
  std::vector<int> ranks;
  if (met_ || !own_page_) return ranks;
  for (int rank = 0; rank < members_.size(); ++rank) {
    transport::Link* const link = members_.link(rank);
    if (link == nullptr || link->memory(kPages | group_)) continue;
    if (!link->withholds(kPages | group_) && !members_.has_departed(rank)) ranks.push_back(rank);
  }
  return ranks;
}

bool GroupBoard::meet() {
  if (met_ || !own_page_) return true;
  if (!awaited_pages().empty()) return false;
  met_ = true;
  std::vector<std::shared_ptr<const transport::SharedMemory>> pages;
  for (int rank = 0; rank < members_.size(); ++rank) {
    transport::Link* const link = members_.link(rank);
    pages.push_back(link == nullptr ? own_page_ : link->memory(kPages | group_));
    if (!Board::is_page(pages.back())) return true;  // withheld, or its group has ended there
  }
  board_.emplace(members_.rank(), std::move(pages));
  return true;
}

bool GroupBoard::is_as_reachable_as_before() const {
  return transport::own_memory_is_reachable() == was_reachable_;
}

PostingCarrier::Stand GroupBoard::stand() const {
  using Stand = PostingCarrier::Stand;
  if (board_) return Stand::ready;
  return met_ && !others_know_ ? Stand::awaited : Stand::over;
}

void GroupBoard::left_by(int peer, std::uint64_t sequence) {
  if (has_posted(peer, sequence)) return;
  leave();
  others_know_ = true;  // all hear the peer's call
}

void GroupBoard::forbid_writes() {
  if (!board_ || std::exchange(forbids_writes_, true) || board_->forbid_writes()) return;
  warn(fmt::format(
      "the system has kept another rank in the middle of a copy for {} s: it may still write to "
      "a buffer of this rank's failed all_reduce in group {}",
      Board::kPatience.count(), group_));
}

void GroupBoard::leave() {
  forbid_writes();
  board_.reset();
}

void GroupBoard::wake(int ranks) {
  if (!board_->may_be_awaited()) return;
  for (int rank = 0; rank < ranks; ++rank) {
    const bool waits = rank != members_.rank() && board_->may_be_awaited_by(rank);
    if (!waits || !board_->is_asleep(rank)) continue;
    members_.link(rank)->send({.type = transport::FrameType::nudge, .group = group_}, {});
    woke_ = true;
  }
}

}  // namespace paceline::collective
