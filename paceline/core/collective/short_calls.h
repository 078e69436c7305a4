// The short calls of a group: those that its board carries (board.h), once all ranks have found
// each other's pages.
//
// A rank that comes to a short call posts it. A rank that does not (it called something else, or
// has no board) sends its call to all, as for every other operation; whoever waits at the board
// then leaves it and does the same. So a mismatch is told as ever, and a board is never waited at
// in vain.
//
// THREAD: reactor's driver only.
#pragma once

#include <memory>
#include <optional>

#include "paceline/core/collective/board.h"
#include "paceline/core/collective/members.h"
#include "paceline/core/collective/request.h"

namespace paceline::collective {

class ShortCalls {
 public:
  // `members` outlives it.
  ShortCalls(const Members& members, std::uint32_t group);

  // Whether ranks carry out this call on a board when they have one: the same for all calls that
  // match.
  static bool suits(const Call& call, int ranks);

  void open();   // offers this rank's page
  void close();  // and withdraws it
  // To be called when every rank is known to have opened.
  void meet();
  bool ready() const { return board_.has_value(); }
  void give_up() { board_.reset(); }

  // Returns whether a rank sleeps, to which a frame now goes that wakes it.
  bool post(std::uint64_t sequence, const Request& request);
  Board::State state(std::uint64_t sequence, const Request& request) const {
    return board_->state(sequence, request.print);
  }
  bool has_posted(int rank, std::uint64_t sequence) const {
    return board_ && board_->has_posted(rank, sequence);
  }
  void carry_out(std::uint64_t sequence, const Request& request);  // all have posted the same
  void set_asleep(bool asleep) {
    if (board_) board_->set_asleep(asleep);
  }

 private:
  std::uint64_t segment() const;

  const Members& members_;
  const std::uint32_t group_;
  std::shared_ptr<const transport::SharedMemory> own_page_;
  std::optional<Board> board_;
  bool met_ = false;
};

}  // namespace paceline::collective
