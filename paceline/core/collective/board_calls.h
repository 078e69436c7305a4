// The calls of a group that its board carries (board.h), once all ranks have found each other's
// pages: barriers and all_reduces.
//
// A rank that comes to such a call posts it. A rank that does not (it called something else, or
// has no board) sends its call to all, as for every other operation; whoever waits at the board
// then leaves it and does the same. So a mismatch is told as ever, and a board is never waited at
// in vain. Once all have posted the same, none can leave: no call was sent.
//
// THREAD: reactor's driver only.
#pragma once

#include <memory>
#include <optional>

#include "paceline/core/collective/board.h"
#include "paceline/core/collective/communicator.h"
#include "paceline/core/collective/members.h"
#include "paceline/core/collective/request.h"
#include "paceline/core/collective/shared_reduction.h"

namespace paceline::collective {

class BoardCalls {
 public:
  // `members` and `traffic` outlive it.
  BoardCalls(const Members& members, std::uint32_t group, Traffic& traffic);

  // Whether ranks carry out this call on a board when they have one: the same for all calls that
  // match.
  static bool suits(const Call& call, int ranks);
  // Whether the caller's thread may do so at once: it is over before it could hand it over.
  static bool is_short(const Call& call);

  void open();   // offers this rank's page
  void close();  // and withdraws it
  // To be called when every rank is known to have opened.
  void meet();
  bool ready() const { return board_.has_value(); }
  void give_up();  // from now on all calls are messages, and no memory of callers is touched

  // Takes part in the call; only the first post of an operation counts.
  void post(std::uint64_t sequence, const Request& request);
  bool has_posted(int rank, std::uint64_t sequence) const {
    return board_ && board_->has_posted(rank, sequence);
  }

  enum class Progress : std::uint8_t { waiting, moved, done, by_messages };
  // Does what can be done now for what was posted. by_messages: the board cannot carry it, and all
  // ranks see so.
  Result<Progress> advance(std::uint64_t sequence, const Request& request);
  bool works() const { return reduction_.has_value(); }  // all have posted, and none can leave
  std::vector<int> awaited() const;                      // who has posted, and is not through

  void set_asleep(bool asleep) {
    if (board_) board_->set_asleep(asleep);
  }
  // Whether a rank slept since this was asked last, so that a frame that wakes it waits to go out.
  bool take_woke() { return std::exchange(woke_, false); }

 private:
  using Memory = SharedReduction::Memory;

  Memory create(std::uint64_t segment, std::size_t bytes);
  SharedReduction::Offer offer(const Request& request);
  void sum_short(std::uint64_t sequence, const Request& request);
  void wake();

  const Members& members_;
  const std::uint32_t group_;
  Traffic& traffic_;
  Memory own_page_, stage_;
  std::optional<Board> board_;
  bool met_ = false;
  bool woke_ = false;
  std::optional<SharedReduction> reduction_;  // under way
};

}  // namespace paceline::collective
