#include "tests/support/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "paceline/core/base/half.h"
#include "paceline/core/collective/catalogue.h"
#include "paceline/core/collective/contract.h"
#include "paceline/core/collective/partition.h"
#include "tests/support/arena.h"

namespace paceline::test {
namespace {

using collective::Partition;
using collective::Range;

constexpr Dtype kDtypes[] = {Dtype::f64, Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i64,
                             Dtype::i32, Dtype::i16, Dtype::i8,  Dtype::u8,   Dtype::boolean};
constexpr ReduceOp kOps[] = {ReduceOp::sum,     ReduceOp::average, ReduceOp::min, ReduceOp::max,
                             ReduceOp::product, ReduceOp::band,    ReduceOp::bor, ReduceOp::bxor};
constexpr std::size_t kLengths[] = {0, 1, 7, 1009, 2600};

// --- the reference: whole numbers so small that every type holds every partial result ---

std::int64_t number(int rank, std::size_t i) {
  return 1 + static_cast<std::int64_t>((i * 7 + static_cast<std::size_t>(rank) * 5 + i / 11) % 2);
}

template <typename T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

void encode(Dtype dtype, double value, std::byte* at) {
  const auto whole = static_cast<std::int64_t>(value);
  const float single = static_cast<float>(value);
  switch (dtype) {
    case Dtype::f64: return put(at, value);
    case Dtype::f32: return put(at, single);
    case Dtype::f16:
    case Dtype::bf16: return narrow(dtype, {&single, 1}, {at, 2});
    case Dtype::i64: return put(at, whole);
    case Dtype::i32: return put(at, static_cast<std::int32_t>(whole));
    case Dtype::i16: return put(at, static_cast<std::int16_t>(whole));
    case Dtype::i8: return put(at, static_cast<std::int8_t>(whole));
    case Dtype::u8: return put(at, static_cast<std::uint8_t>(whole));
    case Dtype::boolean: return put(at, static_cast<std::uint8_t>(value != 0));
  }
}

// A bool is true for every other number.
double input_number(Dtype dtype, int rank, std::size_t i) {
  return static_cast<double>(dtype == Dtype::boolean ? number(rank, i) - 1 : number(rank, i));
}

double reduced(Dtype dtype, ReduceOp op, int ranks, std::size_t i) {
  double all = input_number(dtype, 0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const double next = input_number(dtype, rank, i);
    const auto a = static_cast<std::int64_t>(all), b = static_cast<std::int64_t>(next);
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::average: all += next; break;
      case ReduceOp::product: all *= next; break;
      case ReduceOp::min: all = std::min(all, next); break;
      case ReduceOp::max: all = std::max(all, next); break;
      case ReduceOp::band: all = static_cast<double>(a & b); break;
      case ReduceOp::bor: all = static_cast<double>(a | b); break;
      case ReduceOp::bxor: all = static_cast<double>(a ^ b); break;
    }
  }
  if (op != ReduceOp::average) return all;
  return dtype == Dtype::f64 ? all * (1.0 / ranks)
                             : static_cast<float>(all) * static_cast<float>(1.0 / ranks);
}

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
  // Elements first.. of what `whose` brings.
  Buffer filled(std::size_t count, std::size_t first = 0) {
    const Buffer buffer = take(count);
    for (std::size_t i = 0; i < count; ++i)
      encode(dtype, input_number(dtype, rank, first + i), buffer.data + i * size_of(dtype));
    return buffer;
  }
  template <typename Function>
  void expect(Buffer buffer, const Function& wanted, std::string_view what) {
    std::byte want[8];
    for (std::size_t i = 0; i < buffer.count; ++i) {
      encode(dtype, wanted(i), want);
      if (std::memcmp(buffer.data + i * size_of(dtype), want, size_of(dtype)) != 0) {
        throw Broken(fmt::format("{} of {}[{}] by '{}', rank {} of {}: element {} is wrong", what,
                                 name_of(dtype), buffer.count, algorithm, rank, ranks, i));
      }
    }
    if (!arena_.guards_intact())
      throw Broken(fmt::format("{} by '{}' wrote beside its buffers", what, algorithm));
    arena_.reset();
  }
  std::size_t next_length() { return kLengths[turn_++ % std::size(kLengths)]; }
  int root() const { return static_cast<int>(turn_) % ranks; }
  Buffer part(Buffer whole, Range range) const {
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
  for (const Range& chunk : Partition::even(count, ranks).chunks) counts.push_back(chunk.count);
  if (even) return counts;
  for (std::size_t i = 0; i + 1 < counts.size(); i += 2) {
    counts[i] += counts[i + 1];
    counts[i + 1] = 0;
  }
  return counts;
}

void reductions(Case& c, const Way& way, ReduceOp op, bool in_place) {
  const std::size_t count = c.next_length();
  const auto wanted = [&](std::size_t i) { return reduced(c.dtype, op, c.ranks, i); };
  const auto own = [&](std::size_t i) { return input_number(c.dtype, c.rank, i); };
  if (way.operation == Operation::all_reduce) {
    const Buffer in = c.filled(count), out = in_place ? in : c.take(count);
    c.world.all_reduce(in, out, {.op = op, .algorithm = way.algorithm}).wait();
    c.expect(out, wanted, name_of(op));
  } else if (way.operation == Operation::reduce) {
    const int root = c.root();
    const Buffer in = c.filled(count), out = in_place ? in : c.take(count);
    c.world.reduce(in, out, root, {.op = op, .algorithm = way.algorithm}).wait();
    if (c.rank == root) c.expect(out, wanted, name_of(op));
    else c.expect(in, own, "the input of a reduce");
  } else {
    const auto counts = cut(count, c.ranks, in_place);
    const Range mine = Partition::of(counts).chunks[static_cast<std::size_t>(c.rank)];
    const Buffer in = c.filled(count), out = in_place ? c.part(in, mine) : c.take(mine.count);
    c.world.reduce_scatter(in, out, {.op = op, .counts = counts, .algorithm = way.algorithm})
        .wait();
    c.expect(
        out, [&](std::size_t i) { return wanted(mine.offset + i); }, name_of(op));
  }
}

void all_to_all(Case& c, std::string_view algorithm, bool even, bool in_place) {
  // What rank a sends to rank b; in place the matrix is symmetric.
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
  c.expect(
      out,
      [&](std::size_t i) {
        int from = 0;
        while (i >= taken.chunks[static_cast<std::size_t>(from)].offset +
                        taken.chunks[static_cast<std::size_t>(from)].count)
          ++from;
        std::size_t at = i - taken.chunks[static_cast<std::size_t>(from)].offset;
        for (int peer = 0; peer < c.rank; ++peer) at += between(from, peer);
        return input_number(c.dtype, from, at);
      },
      "all_to_all");
}

void moves(Case& c, const Way& way, bool in_place) {
  if (way.operation == Operation::all_to_all) {
    all_to_all(c, way.algorithm, true, in_place);
    all_to_all(c, way.algorithm, false, in_place);
    return;
  }
  const std::size_t count = c.next_length();
  const int root = c.root();
  const auto counts = cut(count, c.ranks, in_place);
  const Partition parts = Partition::of(counts);
  const Range mine = parts.chunks[static_cast<std::size_t>(c.rank)];
  const auto from_owners = [&](std::size_t i) {
    int owner = 0;
    while (i >= parts.chunks[static_cast<std::size_t>(owner)].offset +
                    parts.chunks[static_cast<std::size_t>(owner)].count)
      ++owner;
    return input_number(c.dtype, owner, i);
  };
  const auto from_root = [&](std::size_t first) {
    return [&c, root, first](std::size_t i) { return input_number(c.dtype, root, first + i); };
  };
  const GatherOptions options{.counts = counts, .algorithm = way.algorithm};
  if (way.operation == Operation::broadcast) {
    const Buffer inout = c.filled(count);
    c.world.broadcast(inout, root, {.algorithm = way.algorithm}).wait();
    c.expect(inout, from_root(0), "broadcast");
  } else if (way.operation == Operation::scatter) {
    const Buffer in = c.rank == root ? c.filled(count) : Buffer{nullptr, 0, c.dtype};
    const Buffer out = in_place && c.rank == root ? c.part(in, mine) : c.take(mine.count);
    c.world.scatter(in, out, root, options).wait();
    c.expect(out, from_root(mine.offset), "scatter");
  } else {
    const bool gathers = way.operation == Operation::gather, takes = !gathers || c.rank == root;
    const Buffer out = takes ? c.take(count) : Buffer{nullptr, 0, c.dtype};
    const Buffer own = c.filled(mine.count, mine.offset);
    Buffer in = own;
    if (in_place && takes) {
      in = c.part(out, mine);
      if (in.count > 0) std::memcpy(in.data, own.data, in.size_bytes());
    }
    const Work work =
        gathers ? c.world.gather(in, out, root, options) : c.world.all_gather(in, out, options);
    work.wait();
    c.expect(out, from_owners, name_of(way.operation));
  }
}

}  // namespace

std::vector<Way> ways_of_the_catalogue(int ranks) {
  std::vector<Way> ways;
  const auto catalogue = collective::built_in_algorithms();
  for (const auto& algorithm : catalogue) {
    if (algorithm.fits({.ranks = ranks})) ways.push_back({algorithm.operation, algorithm.name});
  }
  return ways;
}

std::vector<Way> chosen_ways() {
  std::vector<Way> ways;
  for (int number = 1; name_of(static_cast<Operation>(number)) != "unknown"; ++number) {
    const auto operation = static_cast<Operation>(number);
    if (collective::has_programs(operation)) ways.push_back({operation, {}});
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
          // Groups of even and odd size take turns, and so do rounds.
          const bool in_place = (++turn + round) % 2 == 0;
          if (can_reduce(op, dtype)) reductions(c, way, op, in_place);
        }
      }
    }
    (void)c.next_length();
  }
}

}  // namespace paceline::test
