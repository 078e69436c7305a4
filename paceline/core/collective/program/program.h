// A collective is a program: what one rank does, as a plain value.
//
// A program is rounds of steps. The steps of one round are independent: a slot written in a round
// is not read in it (by another step; a step may read its own target). A program speaks of slots,
// never of addresses or sizes: where a chunk lies and how long it is, is the executor's affair
// (partition.h), so uneven counts and empty chunks need no other program, and a long buffer is cut
// into segments by running the same program once for each.
//
// A message is what a rank sends to one peer in one round: its steps travel back to back, so that
// several of them have one start-up time (the alpha of cost.h).
//
// The same value is verified (verify.h), priced (cost.h), executed (program_carrier.h) and printed
// (to_string).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "paceline/core/collective/program/operation.h"

namespace paceline::collective {

// Chunk `chunk` of the input, of the output, or of scratch buffer `place` (there it only tells the
// length). When an operation runs in place, input(c) and output(c) are the same memory: programs
// must be right in both cases. Mostly both have all chunks; contract.h says which ranks have which.
// Chunks of all_to_all: one for each pair of ranks.
struct Slot {
  enum class Space : std::uint8_t { input, output, scratch } space = Space::input;
  int chunk = 0;
  int place = 0;  // scratch only
  bool operator==(const Slot&) const = default;
  auto operator<=>(const Slot&) const = default;
};

constexpr Slot input(int chunk) {
  return {Slot::Space::input, chunk, 0};
}
constexpr Slot output(int chunk) {
  return {Slot::Space::output, chunk, 0};
}
constexpr Slot scratch(int place, int chunk) {
  return {Slot::Space::scratch, chunk, place};
}

struct Step {
  enum class Kind : std::uint8_t {
    send,   // source -> the peer, which has a recv or recv_reduce for it
    store,  // source -> the peer's slot `target`, for which the peer has a recv; over shared memory
            // written directly
    recv,   // target = what the peer sends
    recv_reduce,  // target = operand OP received, or received OP operand (operand_is_left)
    copy,         // target = source
    reduce,       // target = source OP operand
  } kind = Kind::send;
  int peer = -1;      // -1 for copy and reduce
  Slot source = {};   // send, store, copy, reduce
  Slot operand = {};  // recv_reduce, reduce
  Slot target = {};   // store (the peer's), recv, recv_reduce, copy, reduce
  // recv_reduce: the order of the summation tree (docs/algorithms/README.md).
  bool operand_is_left = false;
  bool completes = false;  // after this step `target` holds every rank's contribution for the first
                           // time on any rank: where an average is scaled, once for each element
  bool operator==(const Step&) const = default;
};

Step send(int peer, Slot source);
Step store(int peer, Slot source, Slot peers_target);
Step recv(int peer, Slot target);
Step recv_reduce(int peer, Slot operand, Slot target, bool operand_is_left);
Step copy(Slot source, Slot target);
Step reduce(Slot left, Slot right, Slot target);
Step completing(Step step);  // the same step with `completes` set

using Round = std::vector<Step>;

// For each step of the round: the first step of the message that it belongs to; -1 where nothing is
// sent.
std::vector<int> messages_of(const Round& round);

struct Program {
  // Chunks of the whole vector (for all_reduce the buffer, for all_gather the result, ...).
  int chunks = 0;
  int scratch_places = 0;  // scratch buffers, each as long as the longest chunk
  std::vector<Round> rounds = {};
  bool operator==(const Program&) const = default;
};

// The shape for which a program is made. 0 <= rank < ranks, 0 <= root < ranks.
struct Shape {
  int ranks = 1;
  int rank = 0;
  int root = 0;
  int radix = 2;  // of trees: children of a rank; of bcube: members of a group
  // The hosts as lists of their ranks, each rank on one of them. Empty: nothing is known.
  std::vector<std::vector<int>> groups = {};
  // The ranks as a grid: how many along each dimension, the first one's neighbours first (rank r is
  // at r mod dimensions[0], ..). Their product is `ranks`. Empty: nothing is known.
  std::vector<int> dimensions = {};
  bool operator==(const Shape&) const = default;
};

// Every rank count and every root: 0 <= rank < ranks and 0 <= root < ranks; groups and dimensions
// are what Shape says. What most algorithms' `fits` is.
bool is_valid(const Shape& shape);

// The same for algorithms that want a power of two of ranks.
bool is_power_of_two(const Shape& shape);

// Shapes for which a summation tree is the balanced one; see Algorithm.
bool for_any_count(const Shape& shape);
bool for_one_rank(const Shape& shape);

// The promise that an algorithm makes about the bits of a sum (docs/algorithms/README.md).
enum class DeterminismClass : std::uint8_t {
  d2 = 2,  // the same bits on every rank and from run to run
  d3 = 3,  // also independent of an element's position, of the length and of fusion
};

// The costs of a collective that do not depend on its length: `verify` counts it, and the algorithm
// states it.
struct Counters {
  int depth = 0;  // rounds with messages on the longest chain of rounds that wait for each other
  long messages = 0;  // over all ranks; what one rank sends another in one round is one message
  long chunks = 0;    // sent or stored by the rank that sends most
  bool operator==(const Counters&) const = default;
};

// One file under algorithms/<operation>/ returns this.
struct Algorithm {
  Operation operation = Operation::all_reduce;
  std::string_view name;
  std::string_view purpose = {};  // what it is for, in less than a line
  DeterminismClass determinism = DeterminismClass::d3;
  // For which shapes the summation tree is the balanced tree in rank order (or nothing is summed):
  // there `reproducible` may choose it. shape.rank does not matter.
  bool (*has_balanced_tree)(const Shape& shape) = for_one_rank;
  // Partial sums are made by `reduce` steps in scratch alone, so that f16 and bf16 hold them in f32
  // and round once (compiled_program.h); or nothing is summed. What `reproducible` needs for them.
  bool rounds_once = false;
  // all_to_all: only where every rank has as much for every other one, and knows that of all.
  bool needs_equal_counts = false;
  bool (*fits)(const Shape&) = nullptr;
  Program (*build)(const Shape&) = nullptr;
  // The formulas of the literature (shape.rank is ignored), for every shape that fits: `verify`
  // refuses programs that cost something else. None: the algorithm states nothing.
  Counters (*closed_form)(const Shape&) = nullptr;
};

std::string to_string(const Slot& slot);  // "output(3)", "scratch(1, 3)"
std::string to_string(const Step& step);  // "recv_reduce from 2: output(3) = received OP input(3)"
// "6 rounds, 24 messages, 6 chunks from the busiest rank"
std::string to_string(const Counters& counters);
// "4 ranks, root 0", and the rest of the shape, as `paceline programs` takes it: "groups 0,1/2,3"
std::string to_string(const Shape& shape);
std::string to_string(const Program& program);  // a line for each step, rounds numbered

}  // namespace paceline::collective
