#include "tests/support/reference.h"

#include <fmt/format.h>

#include "paceline/core/collective/program/algorithm_catalogue.h"
#include "paceline/core/collective/program/contract.h"
#include "paceline/core/collective/program/partition.h"
#include "tests/support/arena.h"
#include "tests/support/numbers.h"

namespace paceline::test {
namespace {

using collective::ElementRange;
using collective::Partition;

constexpr Dtype kDtypes[] = {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i64,
                             Dtype::i32, Dtype::i16, Dtype::i8,  Dtype::u8,   Dtype::boolean};
constexpr ReduceOp kOps[] = {ReduceOp::sum,     ReduceOp::average, ReduceOp::min, ReduceOp::max,
                             ReduceOp::product, ReduceOp::band,    ReduceOp::bor, ReduceOp::bxor};
constexpr std::size_t kLengths[] = {0, 1, 7, 1009, 2600};

// --- one case ---

class Case {
 public:
  Case(Communicator& group, Arena& arena)
      : world(group), ranks(group.size()), rank(group.rank()), arena_(arena) {}

  Buffer take(std::size_t count) {
    const auto bytes = arena_.take<std::byte>(count * size_of(dtype),
                                              (turn_ + static_cast<std::size_t>(rank)) % 2 == 0);
    return {bytes.data(), count, dtype};
  }
  // A buffer with the elements first, first + 1, ... of this rank's input.
  Buffer filled(std::size_t count, std::size_t first = 0) {
    const Buffer buffer = take(count);
    of(rank).fill(buffer, first);
    return buffer;
  }
  MixedPrecision of(int whose) const { return MixedPrecision::of(dtype, whose); }
  // Elements first.. of the row.
  void expect(Buffer buffer, const MixedPrecision& wanted, std::string_view what,
              std::size_t first = 0) {
    const std::size_t wrong = wanted.first_difference(buffer, first);
    if (wrong != buffer.count) {
      throw Broken(fmt::format("{} of {}[{}] by '{}', rank {} of {}: element {} is wrong", what,
                               name_of(dtype), buffer.count, algorithm, rank, ranks, wrong));
    }
  }
  void end() {
    if (!arena_.guards_intact())
      throw Broken(fmt::format("'{}' on {} wrote beside its buffers", algorithm, name_of(dtype)));
    arena_.reset();
  }
  std::size_t next_length() { return kLengths[turn_++ % std::size(kLengths)]; }
  int root() const { return static_cast<int>(turn_) % ranks; }
  Buffer part(Buffer whole, ElementRange range) const {
    return {whole.data + range.offset * size_of(dtype), range.count, dtype};
  }

  Communicator& world;
  const int ranks, rank;
  Dtype dtype = Dtype::f32;
  std::string_view algorithm;

 private:
  Arena& arena_;
  std::size_t turn_ = 0;
};

// Lengths of the ranks' parts: by the chunk rule, or anything that adds up, with empty ones.
std::vector<std::size_t> cut(std::size_t count, int ranks, bool even) {
  std::vector<std::size_t> counts;
  for (const ElementRange& chunk : Partition::even(count, ranks).chunks)
    counts.push_back(chunk.count);
  if (even) return counts;
  for (std::size_t i = 0; i + 1 < counts.size(); i += 2) {
    counts[i] += counts[i + 1];
    counts[i + 1] = 0;
  }
  return counts;
}

void reductions(Case& c, const Way& way, ReduceOp op, bool in_place) {
  const std::size_t count = c.next_length();
  const MixedPrecision wanted = MixedPrecision::reduced(c.dtype, op, c.ranks);
  if (way.operation == Operation::all_reduce) {
    const Buffer in = c.filled(count), out = in_place ? in : c.take(count);
    c.world.all_reduce(in, out, {.op = op, .algorithm = way.algorithm}).wait();
    c.expect(out, wanted, name_of(op));
  } else if (way.operation == Operation::reduce) {
    const int root = c.root();
    const Buffer in = c.filled(count), out = in_place ? in : c.take(count);
    c.world.reduce(in, out, root, {.op = op, .algorithm = way.algorithm}).wait();
    if (c.rank == root) c.expect(out, wanted, name_of(op));
    else c.expect(in, c.of(c.rank), "the input of a reduce");
  } else {
    const auto counts = cut(count, c.ranks, in_place);
    const ElementRange mine = Partition::of(counts).chunks[static_cast<std::size_t>(c.rank)];
    const Buffer in = c.filled(count), out = in_place ? c.part(in, mine) : c.take(mine.count);
    c.world.reduce_scatter(in, out, {.op = op, .counts = counts, .algorithm = way.algorithm})
        .wait();
    c.expect(out, wanted, name_of(op), mine.offset);
  }
  c.end();
}

void all_to_all(Case& c, std::string_view algorithm, bool even, bool in_place) {
  // The number of elements that rank a sends to rank b; in place the matrix is symmetric.
  const auto between = [&](int a, int b) -> std::size_t {
    return even ? 37 : static_cast<std::size_t>((a * 3 + b * (in_place ? 3 : 5)) % 4 * 23);
  };
  std::vector<std::size_t> sends, takes;
  for (int peer = 0; peer < c.ranks; ++peer) {
    sends.push_back(between(c.rank, peer));
    takes.push_back(between(peer, c.rank));
  }
  const Partition sent = Partition::of(sends), taken = Partition::of(takes);
  const Buffer in = c.filled(sent.count()), out = in_place ? in : c.take(taken.count());
  if (even) c.world.all_to_all(in, out, {.algorithm = algorithm}).wait();
  else c.world.all_to_all(in, sends, out, takes, {.algorithm = algorithm}).wait();
  for (int from = 0; from < c.ranks; ++from) {
    std::size_t at = 0;  // where this rank's part begins in what that rank sends
    for (int peer = 0; peer < c.rank; ++peer) at += between(from, peer);
    c.expect(c.part(out, taken.chunks[static_cast<std::size_t>(from)]), c.of(from), "all_to_all",
             at);
  }
  c.end();
}

void broadcast(Case& c, const Way& way) {
  const Buffer inout = c.filled(c.next_length());
  c.world.broadcast(inout, c.root(), {.algorithm = way.algorithm}).wait();
  c.expect(inout, c.of(c.root()), "broadcast");
  c.end();
}

void scatter(Case& c, const Way& way, bool in_place) {
  const std::size_t count = c.next_length();
  const int root = c.root();
  const auto counts = cut(count, c.ranks, in_place);
  const ElementRange mine = Partition::of(counts).chunks[static_cast<std::size_t>(c.rank)];
  const Buffer in = c.rank == root ? c.filled(count) : Buffer{nullptr, 0, c.dtype};
  const Buffer out = in_place && c.rank == root ? c.part(in, mine) : c.take(mine.count);
  c.world.scatter(in, out, root, {.counts = counts, .algorithm = way.algorithm}).wait();
  c.expect(out, c.of(root), "scatter", mine.offset);
  c.end();
}

void gathers(Case& c, const Way& way, bool in_place) {
  const std::size_t count = c.next_length();
  const auto counts = cut(count, c.ranks, in_place);
  const Partition parts = Partition::of(counts);
  const ElementRange mine = parts.chunks[static_cast<std::size_t>(c.rank)];
  const bool to_one = way.operation == Operation::gather, takes = !to_one || c.rank == c.root();
  const Buffer out = takes ? c.take(count) : Buffer{nullptr, 0, c.dtype};
  const Buffer in = in_place && takes ? c.part(out, mine) : c.take(mine.count);
  c.of(c.rank).fill(in, mine.offset);
  const GatherOptions options{.counts = counts, .algorithm = way.algorithm};
  if (to_one) c.world.gather(in, out, c.root(), options).wait();
  else c.world.all_gather(in, out, options).wait();
  for (int from = 0; takes && from < c.ranks; ++from) {
    const ElementRange part = parts.chunks[static_cast<std::size_t>(from)];
    c.expect(c.part(out, part), c.of(from), name_of(way.operation), part.offset);
  }
  c.end();
}

bool takes_counts(const Way& way) {
  const auto catalogue = collective::built_in_algorithms();
  const auto* known = collective::find(catalogue, way.operation, way.algorithm);
  return known == nullptr || !known->needs_equal_counts;
}

void moves(Case& c, const Way& way, bool in_place) {
  switch (way.operation) {
    case Operation::broadcast: return broadcast(c, way);
    case Operation::scatter: return scatter(c, way, in_place);
    case Operation::all_to_all:
      all_to_all(c, way.algorithm, true, in_place);
      if (takes_counts(way)) all_to_all(c, way.algorithm, false, in_place);
      return;
    default: return gathers(c, way, in_place);
  }
}

}  // namespace

std::vector<Way> ways_of_the_catalogue(int ranks) {
  std::vector<Way> ways;
  const auto catalogue = collective::built_in_algorithms();
  for (const auto& algorithm : catalogue) {
    const bool is_carried = collective::is_carried_by_programs(algorithm.operation);
    if (is_carried && algorithm.fits({.ranks = ranks}))
      ways.push_back({algorithm.operation, algorithm.name});
  }
  return ways;
}

std::vector<Way> chosen_ways() {
  std::vector<Way> ways;
  for (int number = 1; name_of(static_cast<Operation>(number)) != "unknown"; ++number) {
    const auto operation = static_cast<Operation>(number);
    if (collective::is_carried_by_programs(operation)) ways.push_back({operation, {}});
  }
  return ways;
}

void is_the_reference(Job& job, Communicator& group, const std::vector<Way>& ways, int rounds) {
  Arena arena(job, 1 << 20);
  Case c(group, arena);
  for (int i = 0; i < group.size(); ++i) (void)c.next_length();  // another group, other lengths
  int turn = group.size();
  for (int round = 0; round < rounds; ++round) {
    for (const Dtype dtype : kDtypes) {
      c.dtype = dtype;
      for (const Way& way : ways) {
        c.algorithm = way.algorithm;
        if (!is_reduction(way.operation)) {
          for (const bool in_place : {false, true}) moves(c, way, in_place);
          continue;
        }
        for (const ReduceOp op : kOps) {
          if (!can_reduce(op, dtype)) continue;
          // In one round alone groups of even and odd size take turns.
          const bool first = ++turn % 2 == 0;
          reductions(c, way, op, first);
          if (rounds > 1) reductions(c, way, op, !first);
        }
      }
    }
    (void)c.next_length();
  }
}

}  // namespace paceline::test
