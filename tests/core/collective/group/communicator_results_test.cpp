// Every operation gives the results of a plain reference and touches no other memory: with all
// element types, reductions, algorithms, transports and kinds of memory (covers communicator.h and
// program_carrier.h).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "paceline/core/collective/program/algorithm_catalogue.h"
#include "tests/core/collective/worlds.h"
#include "tests/support/nightly.h"

namespace paceline::collective::testing {
namespace {

// f32: 3 MiB and one element, many segments.
const std::size_t kBig = ((kSanitized ? 1 : 3) << 18) + 1;

struct Case {
  Job& job;
  Arena& arena;
  std::string_view algorithm;
  std::size_t count;
  int variant;  // which ranks bring allocated memory, and for what

  int ranks() const { return job.world_size(); }
  int rank() const { return job.rank(); }
  Communicator& world() const { return job.world(); }
  bool allocated(int what) const { return ((variant >> what) + rank() * (variant >> 2)) % 2 == 0; }
  std::string describe() const {
    return fmt::format("{} of {} elements, rank {} of {}, variant {}", algorithm, count, rank(),
                       ranks(), variant);
  }
};

// In the shortest form a third of them, others with other ranks: all run on the same carriers,
// where threads meet.
std::vector<std::string_view> algorithms(Operation operation, int ranks) {
  static const Catalogue all = built_in_algorithms();
  std::vector<std::string_view> names;
  int seen = ranks;
  for (const Algorithm& algorithm : all) {
    if (algorithm.operation != operation || !algorithm.fits({.ranks = ranks})) continue;
    if (!test::is_brief() || seen++ % 3 == 0) names.push_back(algorithm.name);
  }
  return names;
}

template <typename T, typename Function>
void check(const Case& c, std::span<T> result, const Function& wanted) {
  ASSERT_EQ(first_difference<T>(result, wanted), result.size()) << c.describe();
  ASSERT_TRUE(c.arena.guards_intact()) << c.describe();
  c.arena.reset();
}

template <typename T>
void all_reduce(const Case& c, ReduceOp op) {
  const auto wanted = expected_by_index<T>(c.ranks(), op);
  const auto in = c.arena.take<T>(c.count, c.allocated(0));
  const auto out = c.arena.take<T>(c.count, c.allocated(1));
  fill(in, c.rank());
  c.world().all_reduce(buffer_of(in), buffer_of(out), {.op = op, .algorithm = c.algorithm}).wait();
  ASSERT_EQ(first_difference<T>(in, [&](std::size_t i) { return value<T>(c.rank(), i); }), c.count)
      << "the input has changed: " << c.describe();
  check<T>(c, out, wanted);
  const auto inout = c.arena.take<T>(c.count, c.allocated(0));
  fill(inout, c.rank());
  c.world().all_reduce(buffer_of(inout), {.op = op, .algorithm = c.algorithm}).wait();
  check<T>(c, inout, wanted);
}

template <typename T>
void weighted_average(const Case& c) {
  const auto weight = [](int rank) { return rank % 3; };  // rank 0 and every third: nothing
  double total = 0;
  for (int rank = 0; rank < c.ranks(); ++rank) total += weight(rank);
  const auto wanted = [&](std::size_t i) {
    T sum = 0;
    for (int rank = 0; rank < c.ranks(); ++rank) {
      sum += value<T>(rank, i) * static_cast<T>(weight(rank));
    }
    return total == 0 ? sum : sum * static_cast<T>(1 / total);
  };
  const auto in = c.arena.take<T>(c.count, c.allocated(0));
  const auto out = c.arena.take<T>(c.count, c.allocated(1));
  fill(in, c.rank());
  const Work work = c.world().all_reduce(
      buffer_of(in), buffer_of(out),
      {.op = ReduceOp::average, .weight = weight(c.rank()), .algorithm = c.algorithm});
  work.wait();
  ASSERT_EQ(work.total_weight(), total);
  check<T>(c, out, wanted);
}

template <typename T>
void reduce_scatter(const Case& c, ReduceOp op) {
  const ElementRange own =
      Partition::even(c.count, c.ranks()).chunks[static_cast<std::size_t>(c.rank())];
  const auto all = expected_by_index<T>(c.ranks(), op);
  const auto wanted = [&](std::size_t i) { return all(own.offset + i); };
  for (const bool in_place : {false, true}) {
    const auto in = c.arena.take<T>(c.count, c.allocated(0));
    const auto out =
        in_place ? in.subspan(own.offset, own.count) : c.arena.take<T>(own.count, c.allocated(1));
    fill(in, c.rank());
    c.world()
        .reduce_scatter(buffer_of(in), buffer_of(out), {.op = op, .algorithm = c.algorithm})
        .wait();
    check<T>(c, out, wanted);
  }
}

template <typename T>
void all_gather(const Case& c) {
  const Partition parts = Partition::even(c.count, c.ranks());
  const ElementRange own = parts.chunks[static_cast<std::size_t>(c.rank())];
  const auto wanted = [&](std::size_t i) {
    int owner = 0;
    while (i >= parts.chunks[static_cast<std::size_t>(owner)].offset +
                    parts.chunks[static_cast<std::size_t>(owner)].count) {
      ++owner;
    }
    return value<T>(owner, i);
  };
  for (const bool in_place : {false, true}) {
    const auto out = c.arena.take<T>(c.count, c.allocated(1));
    const auto in =
        in_place ? out.subspan(own.offset, own.count) : c.arena.take<T>(own.count, c.allocated(0));
    fill(in, c.rank(), own.offset);
    c.world().all_gather(buffer_of(in), buffer_of(out), {.algorithm = c.algorithm}).wait();
    check<T>(c, out, wanted);
  }
}

template <typename T>
void broadcast(const Case& c) {
  for (const int root : std::set{0, c.ranks() / 2, c.ranks() - 1}) {
    const auto inout = c.arena.take<T>(c.count, c.allocated(0));
    fill(inout, c.rank());
    c.world().broadcast(buffer_of(inout), root, {.algorithm = c.algorithm}).wait();
    check<T>(c, inout, [&](std::size_t i) { return value<T>(root, i); });
  }
}

// All algorithms on elements of type T. Of the reductions, the sum and one other in turn; at night
// all.
template <typename T>
void everything(Case c) {
  std::vector<ReduceOp> all = {ReduceOp::sum, ReduceOp::min, ReduceOp::max};
  if (is_floating(dtype_of<T>())) all.push_back(ReduceOp::average);
  const auto ops = [&] {
    if (test::is_nightly()) return all;
    return std::vector{all[0], all[1 + static_cast<std::size_t>(c.variant) % (all.size() - 1)]};
  };
  for (const auto algorithm : algorithms(Operation::all_reduce, c.ranks())) {
    c.algorithm = algorithm;
    for (const ReduceOp op : ops()) all_reduce<T>(c, op);
    if constexpr (std::is_floating_point_v<T>) {
      weighted_average<T>(c);
    }
    ++c.variant;
  }
  for (const auto algorithm : algorithms(Operation::reduce_scatter, c.ranks())) {
    c.algorithm = algorithm;
    for (const ReduceOp op : ops()) reduce_scatter<T>(c, op);
    ++c.variant;
  }
  for (const auto algorithm : algorithms(Operation::all_gather, c.ranks())) {
    c.algorithm = algorithm;
    all_gather<T>(c);
    ++c.variant;
  }
  for (const auto algorithm : algorithms(Operation::broadcast, c.ranks())) {
    c.algorithm = algorithm;
    broadcast<T>(c);
    ++c.variant;
  }
}

std::set<std::size_t> short_counts(int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  // 1024 f32 are where messages turn from copies into references; so they are exactly as long once.
  if (test::is_brief()) return {0, 1, n + 1, 1024 * n};
  return {0, 1, 2, n - 1, n, n + 1, 1000, 1024, 1024 * n};
}

void every_short_count(const LocalWorldOptions& options, int ranks) {
  SCOPED_TRACE(fmt::format("{}, {} ranks", label(options), ranks));
  run_ranks(ranks, options, [ranks](Job& job) {
    Arena arena(job, 1 << 20);
    int variant = 0;
    for (const std::size_t count : short_counts(ranks)) {
      everything<float>({job, arena, "", count, variant});
      everything<std::uint8_t>({job, arena, "", count, variant + 3});
      if (!test::is_brief()) {
        everything<double>({job, arena, "", count, variant + 1});
        everything<std::int64_t>({job, arena, "", count, variant + 2});
      }
      variant += 5;
    }
  });
}

// For one and two ranks communicator_dtypes_test.cpp is enough under sanitizers.
std::vector<int> few_ranks() {
  if (test::is_brief()) return {3, 4};
  return kSanitized ? std::vector{1, 2, 3, 4} : std::vector{1, 2, 3, 4, 5, 6, 7, 8};
}

TEST(CommunicatorResults, AreTheReferencesForShortBuffersOverSharedMemory) {
  for (const int ranks : few_ranks()) every_short_count(kSharedFast, ranks);
}

TEST(CommunicatorResults, AreTheReferencesForShortBuffersOverTcp) {
  for (const int ranks : few_ranks()) every_short_count(kTcpFast, ranks);
}

std::vector<int> many_ranks(const std::vector<int>& by_day) {
  if (kSanitized) return {9};
  return test::is_nightly() ? std::vector{9, 10, 11, 12, 13, 14, 15, 16, 17} : by_day;
}

void every_algorithm(const LocalWorldOptions& options, int ranks) {
  SCOPED_TRACE(fmt::format("{}, {} ranks", label(options), ranks));
  run_ranks(ranks, options, [ranks](Job& job) {
    Arena arena(job, 1 << 20);
    int variant = 0;
    for (const int count : {0, 1, 2, ranks - 1, ranks, ranks + 1, 1000})
      everything<float>({job, arena, "", static_cast<std::size_t>(count), variant++});
    if (ranks == 17) everything<float>({job, arena, "", 65537, variant});
  });
}

TEST(CommunicatorResults, AreTheReferencesForManyRanksOverSharedMemory) {
  for (const int ranks : many_ranks({9, 12, 16, 17})) every_algorithm(kSharedFast, ranks);
}

TEST(CommunicatorResults, AreTheReferencesForManyRanksOverTcp) {
  for (const int ranks : many_ranks({10, 13, 15})) every_algorithm(kTcpFast, ranks);
}

TEST(CommunicatorResults, AreTheReferencesForLongBuffers) {
  for (const auto& options : {kSharedFast, kTcpFast}) {
    for (const int ranks : kSanitized ? std::vector{3} : std::vector{2, 3, 8}) {
      SCOPED_TRACE(fmt::format("{}, {} ranks", label(options), ranks));
      run_ranks(ranks, options, [](Job& job) {
        Arena arena(job, std::size_t{8} << 20);
        for (int variant = 0; variant < (kSanitized ? 1 : 2); ++variant) {
          everything<float>({job, arena, "", 65537, variant});
        }
      });
    }
  }
}

TEST(CommunicatorResults, AreTheReferencesForManySegments) {
  for (const auto& options : {kSharedFast, kTcpFast}) {
    for (const int ranks : kSanitized ? std::vector{3} : std::vector{2, 3, 5}) {
      SCOPED_TRACE(fmt::format("{}, {} ranks", label(options), ranks));
      run_ranks(ranks, options, [](Job& job) {
        Arena arena(job, std::size_t{8} << 20);
        Case c{job, arena, "", kBig, 0};
        const auto each = [&c](Operation operation, const auto& body) {
          for (const auto algorithm : algorithms(operation, c.ranks())) {
            c.algorithm = algorithm;
            ++c.variant;
            body();
          }
        };
        each(Operation::all_reduce, [&c] { all_reduce<float>(c, ReduceOp::average); });
        each(Operation::reduce_scatter, [&c] { reduce_scatter<float>(c, ReduceOp::sum); });
        each(Operation::all_gather, [&c] { all_gather<float>(c); });
        each(Operation::broadcast, [&c] { broadcast<float>(c); });
      });
    }
  }
}

TEST(CommunicatorResults, MovingNeedsNoArithmetic) {
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(3, options, [](Job& job) {
      for (const Dtype dtype :
           {Dtype::f16, Dtype::bf16, Dtype::i32, Dtype::i16, Dtype::i8, Dtype::boolean}) {
        std::vector<std::byte> own(4 * size_of(dtype), std::byte(job.rank() + 1)),
            all(12 * size_of(dtype));
        const Buffer in{own.data(), 4, dtype}, out{all.data(), 12, dtype};
        job.world().all_gather(in, out).wait();
        for (std::size_t i = 0; i < all.size(); ++i) {
          ASSERT_EQ(all[i], std::byte(i / own.size() + 1)) << name_of(dtype);
        }
        job.world().broadcast(in, 2).wait();
        ASSERT_EQ(own, std::vector(own.size(), std::byte{3})) << name_of(dtype);
      }
    });
  }
}

}  // namespace
}  // namespace paceline::collective::testing
