// Recursive doubling all_reduce: neighbouring blocks of ranks exchange their sums, so that all
// ranks of both have the sum of the two; then blocks of twice the length do.
//
// 4 ranks, the whole buffer in each message:
//     distance 1    0 <--> 1    2 <--> 3            0 and 1 hold 0+1, 2 and 3 hold 2+3
//     distance 2    0 <--> 2    1 <--> 3            all hold (0+1)+(2+3)
// 3 ranks: the block of 2 alone is shorter than its neighbour, so it serves several ranks:
//     distance 1    0 <--> 1
//     distance 2    0 <--> 2 --> 1
//
// Rounds: ceil(lg n), half of what `binomial` takes; a message each way, and more only from the
// last block when n is no power of two. Bytes a rank: lg n times the buffer. For short buffers.
// Ranks: any n >= 1. Order of summation: the balanced tree in rank order (class D3).
// Reference: Thakur, Rabenseifner, Gropp, IJHPCA 2005; docs/algorithms/recursive_doubling.md. In
// the paper the ranks beyond a power of two are folded in beforehand, which sums by another tree
// and takes two rounds more.
#include <algorithm>

#include "paceline/core/collective/building/balanced_tree.h"
#include "paceline/core/collective/program/program.h"

namespace paceline::collective::catalogue::all_reduce {
namespace {

// Two neighbouring blocks, as one rank of them sees it.
struct Meeting {
  bool is_left = false;
  int from = 0;         // who sends it the other block's sum
  std::vector<int> to;  // whom it serves: each rank of the longer block has one server
};

Meeting meeting(int rank, int first, int middle, int end) {
  const int left = middle - first, right = end - middle;  // right is not longer than left
  Meeting meeting{.is_left = rank < middle};
  if (meeting.is_left) {
    meeting.from = middle + (rank - first) % right;
    if (rank - first < right) meeting.to = {middle + (rank - first)};
  } else {
    meeting.from = rank - left;
    for (int to = meeting.from; to < middle; to += right) meeting.to.push_back(to);
  }
  return meeting;
}

Program build(const Shape& shape) {
  const int n = shape.ranks;
  if (n == 1) return {.chunks = 1, .rounds = {{completing(copy(input(0), output(0)))}}};
  Program program{.chunks = 1, .scratch_places = 2};
  Slot sum = input(0);
  for (int distance = 1; distance < n; distance *= 2) {
    const int first = shape.rank / (2 * distance) * (2 * distance), middle = first + distance;
    if (middle >= n) continue;  // an odd block out waits
    const Meeting with = meeting(shape.rank, first, middle, std::min(n, middle + distance));
    const bool is_last = 2 * distance >= n;
    // Two places take turns: the sum that leaves in a round lies in the one, the new sum goes to
    // the other.
    const Slot other = scratch(sum == scratch(0, 0) ? 1 : 0, 0);
    Round round;
    for (const int to : with.to) round.push_back(send(to, sum));
    // In place the input is the output, which must not be written while it is on its way.
    const bool may_write_output = is_last && sum != input(0);
    const Slot target = may_write_output ? output(0) : other;
    round.push_back(recv_reduce(with.from, sum, target, /*operand_is_left=*/with.is_left));
    round.back().completes = is_last;
    program.rounds.push_back(round);
    sum = target;
  }
  if (sum != output(0)) program.rounds.push_back({copy(sum, output(0))});
  return program;
}

// Ranks 0 .. ranks-1 stand in blocks of `length`; returns how many of them block `index` has.
int length_of_block(int ranks, int length, int index) {
  return std::clamp(ranks - index * length, 0, length);
}

// Every rank of two blocks that meet takes one message. The ranks of a short block have several
// to serve, each the ones that lie its block's length apart.
Counters closed_form(const Shape& shape) {
  const int n = shape.ranks;
  Counters all{.depth = tree_levels(n)};
  for (int rank = 0; rank < n; ++rank) {
    long sent = 0;
    for (int distance = 1; distance < n; distance *= 2) {
      const int block = rank / distance, place = rank % distance;
      const int own = length_of_block(n, distance, block);
      const int theirs = length_of_block(n, distance, block ^ 1);
      sent += (std::max(0, theirs - place) + own - 1) / own;
    }
    all.messages += sent;
    all.chunks = std::max(all.chunks, sent);
  }
  return all;
}

}  // namespace

Algorithm recursive_doubling() {
  return {.operation = Operation::all_reduce,
          .name = "recursive_doubling",
          .purpose = "short buffers: half the rounds of a tree",
          .determinism = DeterminismClass::d3,
          .has_balanced_tree = for_any_count,
          .fits = is_valid,
          .build = build,
          .closed_form = closed_form};
}

}  // namespace paceline::collective::catalogue::all_reduce
