// PostedSum: an all_reduce of short inputs, which lie in the posts of a board (board.h). Many ranks
// would take too long if each of them read all posts; here one or a few ranks do.
//
// The ranks that see first that all have posted take a chunk of the elements each, until none is
// left. They sum it up by the balanced tree in rank order, and leave the sum in their posts, over
// their own inputs: nobody else reads these elements there. All take the sums from there. So nobody
// waits for a rank that has still to get its turn on a processor; and no rank waits until all have
// taken the sums: a post is written over two operations later, and then all ranks have ended this
// one (board.h).
#pragma once

#include <vector>

#include "paceline/core/collective/call/request.h"
#include "paceline/core/collective/carrier/board.h"
#include "paceline/core/collective/carrier/carrier.h"

namespace paceline::collective {

// It has no state of its own, so that it may be made for each step. THREAD: reactor's driver only.
class PostedSum {
 public:
  // All have posted their inputs for operation `sequence`, and this rank the one of `request`. The
  // elements are cut into `chunks`. `board` and `request` outlive it.
  PostedSum(Board& board, int chunks, std::uint64_t sequence, const Request& request);

  // Does what can be done now: soon, moved (the last sum is there, and others may sleep) or done.
  CallProgress advance();
  // Whether all sums are there, which says that all have posted the same call: one look.
  static bool is_over(const Board& board, int chunks, std::uint64_t sequence);
  // The other ranks that have taken chunks whose sums are missing.
  static std::vector<int> awaited(const Board& board, int chunks, std::uint64_t sequence);

 private:
  std::size_t begin_of(int chunk) const;
  Buffer chunk_at(int rank, int chunk) const;  // in its post
  bool sum_up_what_is_left();                  // whether that has ended the last chunk
  void take_sums() const;

  Board& board_;
  const std::uint64_t sequence_;
  const Request& request_;
  const int chunks_;
};

}  // namespace paceline::collective
