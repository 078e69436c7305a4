// Every operation with every element type, every reduction, every algorithm of the catalogue and
// every transport, against one plain reference that works on numbers (covers communicator.h; the
// shapes of buffers: communicator_results_test.cpp).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "paceline/core/base/half.h"
#include "paceline/core/base/seed.h"
#include "paceline/core/collective/catalogue.h"
#include "tests/core/collective/worlds.h"

namespace paceline::collective::testing {
namespace {

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
  Case(Job& job, Arena& arena)
      : world(job.world()), ranks(world.size()), rank(world.rank()), arena_(arena) {}

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
      ASSERT_EQ(std::memcmp(buffer.data + i * size_of(dtype), want, size_of(dtype)), 0)
          << what << " of " << name_of(dtype) << "[" << buffer.count << "] by " << algorithm
          << ", rank " << rank << " of " << ranks << ", element " << i;
    }
    ASSERT_TRUE(arena_.guards_intact()) << what << " by " << algorithm;
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

void reductions(Case& c, const Algorithm& algorithm, ReduceOp op, bool in_place) {
  const std::size_t count = c.next_length();
  const auto wanted = [&](std::size_t i) { return reduced(c.dtype, op, c.ranks, i); };
  const auto own = [&](std::size_t i) { return input_number(c.dtype, c.rank, i); };
  if (algorithm.operation == Operation::all_reduce) {
    const Buffer in = c.filled(count), out = in_place ? in : c.take(count);
    c.world.all_reduce(in, out, {.op = op, .algorithm = algorithm.name}).wait();
    c.expect(out, wanted, name_of(op));
  } else if (algorithm.operation == Operation::reduce) {
    const int root = c.root();
    const Buffer in = c.filled(count), out = in_place ? in : c.take(count);
    c.world.reduce(in, out, root, {.op = op, .algorithm = algorithm.name}).wait();
    if (c.rank == root) c.expect(out, wanted, name_of(op));
    else c.expect(in, own, "the input of a reduce");
  } else {
    const auto counts = cut(count, c.ranks, in_place);
    const Range mine = Partition::of(counts).chunks[static_cast<std::size_t>(c.rank)];
    const Buffer in = c.filled(count), out = in_place ? c.part(in, mine) : c.take(mine.count);
    c.world.reduce_scatter(in, out, {.op = op, .counts = counts, .algorithm = algorithm.name})
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

void moves(Case& c, const Algorithm& algorithm, bool in_place) {
  if (algorithm.operation == Operation::all_to_all) {
    all_to_all(c, algorithm.name, true, in_place);
    all_to_all(c, algorithm.name, false, in_place);
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
  const GatherOptions options{.counts = counts, .algorithm = algorithm.name};
  if (algorithm.operation == Operation::broadcast) {
    const Buffer inout = c.filled(count);
    c.world.broadcast(inout, root, {.algorithm = algorithm.name}).wait();
    c.expect(inout, from_root(0), "broadcast");
  } else if (algorithm.operation == Operation::scatter) {
    const Buffer in = c.rank == root ? c.filled(count) : Buffer{nullptr, 0, c.dtype};
    const Buffer out = in_place && c.rank == root ? c.part(in, mine) : c.take(mine.count);
    c.world.scatter(in, out, root, options).wait();
    c.expect(out, from_root(mine.offset), "scatter");
  } else {
    const bool gathers = algorithm.operation == Operation::gather,
               takes = !gathers || c.rank == root;
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
    c.expect(out, from_owners, name_of(algorithm.operation));
  }
}

void everything(const LocalWorldOptions& options, int ranks) {
  SCOPED_TRACE(fmt::format("{}, {} ranks", label(options), ranks));
  const int rounds = std::getenv("PACELINE_NIGHTLY") != nullptr
                         ? 5
                         : 1;  // five: every length for each combination
  run_ranks(ranks, options, [rounds](Job& job) {
    Arena arena(job, 1 << 20);
    Case c(job, arena);
    const Catalogue catalogue = built_in_algorithms();
    for (int i = 0; i < job.world_size(); ++i)
      (void)c.next_length();  // another world, other lengths
    for (int round = 0; round < rounds; ++round) {
      for (const Dtype dtype : kDtypes) {
        c.dtype = dtype;
        for (const Algorithm& algorithm : catalogue) {
          if (!algorithm.fits({.ranks = job.world_size()})) continue;
          c.algorithm = algorithm.name;
          for (const bool in_place : {false, true}) {
            if (!is_reduction(algorithm.operation)) {
              moves(c, algorithm, in_place);
              continue;
            }
            for (const ReduceOp op : kOps) {
              if (can_reduce(op, dtype)) reductions(c, algorithm, op, in_place);
            }
          }
        }
      }
      (void)c.next_length();
    }
  });
}

TEST(CommunicatorDtypes, AreTheReferenceOverSharedMemory) {
  for (int ranks = 1; ranks <= (kSanitized ? 3 : 8); ++ranks) everything(kSharedFast, ranks);
}

TEST(CommunicatorDtypes, AreTheReferenceOverTcp) {
  for (int ranks = 1; ranks <= (kSanitized ? 3 : 8); ++ranks) everything(kTcpFast, ranks);
}

// --- what is promised of the 16-bit types ---

TEST(CommunicatorDtypes, ReproducibleSumsOf16BitsAreTheBalancedTreeInFloatsRoundedOnce) {
  constexpr std::size_t kCount = 5001;
  for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    for (const int ranks : {2, 3, 5, 8}) {
      std::vector<std::vector<float>> inputs(static_cast<std::size_t>(ranks),
                                             std::vector<float>(kCount));
      std::vector<std::vector<std::uint16_t>> halves;
      SeededNumbers numbers(7);
      for (auto& input : inputs) {
        auto& bits = halves.emplace_back(kCount);
        for (float& f : input) f = static_cast<float>(numbers.unit() * 2000 - 1000);
        narrow(dtype, input, std::as_writable_bytes(std::span(bits)));
        widen(dtype, std::as_bytes(std::span(bits)), input);
      }
      for (const bool average : {false, true}) {
        std::vector<float> sums(kCount);
        for (std::size_t i = 0; i < kCount; ++i) {
          std::vector<float> leaves;
          for (const auto& input : inputs) leaves.push_back(input[i]);
          sums[i] = balanced_sum(leaves, [](float a, float b) { return a + b; });
          if (average) sums[i] *= static_cast<float>(1.0 / ranks);
        }
        std::vector<std::uint16_t> wanted(kCount);
        narrow(dtype, sums, std::as_writable_bytes(std::span(wanted)));
        for (const auto& options : {kShared, kTcp}) {
          run_ranks(ranks, options, [&](Job& job) {
            const auto op = average ? ReduceOp::average : ReduceOp::sum;
            auto bits = halves[static_cast<std::size_t>(job.rank())], rooted = bits;
            job.world()
                .all_reduce({std::as_writable_bytes(std::span(bits)).data(), kCount, dtype},
                            {.op = op})
                .wait();
            ASSERT_EQ(bits, wanted)
                << name_of(dtype) << ", " << ranks << " ranks, " << label(options);
            job.world()
                .reduce({std::as_writable_bytes(std::span(rooted)).data(), kCount, dtype},
                        ranks - 1, {.op = op})
                .wait();
            if (job.rank() == ranks - 1) {
              ASSERT_EQ(rooted, wanted);
            }
          });
        }
      }
    }
  }
}

TEST(CommunicatorDtypes, WeightedAveragesOf16BitsDoNotOverflow) {
  run_ranks(3, [](Job& job) {
    std::vector<float> value(1, 60000.0F);
    std::vector<std::uint16_t> bits(1);
    narrow(Dtype::f16, value, std::as_writable_bytes(std::span(bits)));
    const Buffer buffer{std::as_writable_bytes(std::span(bits)).data(), 1, Dtype::f16};
    job.world()
        .all_reduce(buffer, {.op = ReduceOp::average, .weight = 100.0 * (job.rank() + 1)})
        .wait();
    widen(Dtype::f16, std::as_bytes(std::span(bits)), value);
    EXPECT_NEAR(value[0], 60000, 64) << "within two roundings";
    job.world().all_reduce(buffer, {.op = ReduceOp::average}).wait();
    widen(Dtype::f16, std::as_bytes(std::span(bits)), value);
    EXPECT_NEAR(value[0], 60000, 96) << "the sum, 180000, is no f16";
  });
}

}  // namespace
}  // namespace paceline::collective::testing
