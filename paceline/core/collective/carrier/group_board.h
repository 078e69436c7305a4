// GroupBoard: the board of a group (board.h) over the group's life. Each rank offers its page, and
// the board is there once all ranks have found each other's pages, until this rank leaves it. The
// group's carriers post on it: BoardCarrier and DeviceKernelCarrier.
//
// THREAD: reactor's driver only.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "paceline/core/collective/call/members.h"
#include "paceline/core/collective/carrier/board.h"
#include "paceline/core/collective/carrier/carrier.h"

namespace paceline::collective {

class GroupBoard {
 public:
  // `members` outlives it.
  GroupBoard(const Members& members, std::uint32_t group) : members_(members), group_(group) {}

  void open();   // offers this rank's page
  void close();  // and withdraws it
  // Whether it is settled if the ranks have a board. REQUIRES: every rank is known to have opened.
  bool meet();
  std::vector<int> awaited_pages() const;  // the ranks whose pages may still come
  // Whether the others reach this rank's memory now if they could when they tried.
  bool is_as_reachable_as_before() const;

  explicit operator bool() const { return board_.has_value(); }
  Board& operator*() { return *board_; }
  Board* operator->() { return &*board_; }
  const Board* operator->() const { return &*board_; }

  PostingCarrier::Stand stand() const;
  bool has_posted(int rank, std::uint64_t sequence) const {
    return board_ && board_->has_posted(rank, sequence);
  }
  // A peer has sent its call, or data, in an operation that this rank has posted: this rank leaves
  // the board unless the peer has posted, too.
  void left_by(int peer, std::uint64_t sequence);
  // Once this has returned, nobody writes into this rank's memory.
  void forbid_writes();
  // REQUIRES: no carrier uses it any more.
  void leave();

  void wake(int ranks);  // the first ones, where they sleep and may wait for what was posted last
  // Whether a rank slept since this was asked last, so that a frame that wakes it waits to go out.
  bool take_woke() { return std::exchange(woke_, false); }
  void set_asleep(bool asleep) {
    if (board_) board_->set_asleep(asleep);
  }

 private:
  const Members& members_;
  const std::uint32_t group_;
  std::shared_ptr<const transport::SharedMemory> own_page_;
  std::optional<Board> board_;
  bool is_open_ = false;
  bool was_reachable_ = false;  // this rank, when the others tried
  bool met_ = false;
  bool others_know_ = false;  // that this rank posts no more
  bool forbids_writes_ = false;
  bool woke_ = false;
};

}  // namespace paceline::collective
