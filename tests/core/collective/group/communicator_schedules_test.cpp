// Random schedules of calls that are all right: they end, with the right values, and none is ever
// taken for a mismatch.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <stdexcept>

#include "tests/core/collective/worlds.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::collective::testing {
namespace {

// A schedule that all ranks draw from the same seed; each rank's delays come from another.
void legal_schedule(Job& job, std::uint64_t seed, Arena& arena) {
  std::mt19937_64 common(test::seed(seed)),
      own(test::seed(seed * 31 + static_cast<std::uint64_t>(job.rank())));
  const auto draw = [](std::mt19937_64& from, std::uint64_t below) { return from() % below; };
  Communicator& world = job.world();
  const auto ranks = static_cast<std::uint64_t>(world.size());
  struct Pending {
    Work work;
    std::function<bool()> right;
  };
  std::vector<Pending> pending;
  arena.reset();
  const auto calls = 1 + draw(common, 4);
  for (std::uint64_t i = 0; i < calls; ++i) {
    const auto operation = draw(common, 9);
    const std::size_t count =
        draw(common, 20) == 0 ? 20'000 + draw(common, 100) : draw(common, 1500);
    const int root = static_cast<int>(draw(common, ranks));
    const auto values = arena.take<float>(count, draw(own, 2) == 0);
    const auto all_right = [values](std::function<float(std::size_t)> wanted) {
      return [values, wanted] { return first_difference<float>(values, wanted) == values.size(); };
    };
    const int size = world.size();
    for (auto yields = draw(own, 4); yields > 0; --yields) std::this_thread::yield();
    fill(values, job.rank());
    Pending next;
    if (operation <= 1) {
      const auto op = operation == 0 ? ReduceOp::sum : ReduceOp::max;
      next = {world.all_reduce(buffer_of(values), {.op = op}),
              all_right([=](std::size_t k) { return expected<float>(size, op, k); })};
    } else if (operation == 2) {
      next = {world.broadcast(buffer_of(values), root),
              all_right([=](std::size_t k) { return value<float>(root, k); })};
    } else if (operation == 3) {
      const ElementRange mine =
          Partition::even(count, size).chunks[static_cast<std::size_t>(job.rank())];
      const auto part = values.subspan(mine.offset, mine.count);
      next = {world.reduce_scatter(const_buffer_of(values), buffer_of(part)), [=] {
                return first_difference<float>(part, [&](std::size_t k) {
                         return expected<float>(size, ReduceOp::sum, mine.offset + k);
                       }) == part.size();
              }};
    } else if (operation == 4) {
      next = {world.barrier(), [] { return true; }};
    } else if (operation == 5) {
      next = {
          world.reduce(buffer_of(values), root),
          job.rank() == root
              ? all_right([=](std::size_t k) { return expected<float>(size, ReduceOp::sum, k); })
              : all_right([rank = job.rank()](std::size_t k) { return value<float>(rank, k); })};
    } else if (operation == 6) {
      const ElementRange mine =
          Partition::even(count, size).chunks[static_cast<std::size_t>(job.rank())];
      const auto all = arena.take<float>(mine.count * ranks + ranks, draw(own, 2) == 0);
      next = {world.gather(const_buffer_of(values.first(count / ranks)),
                           buffer_of(all.first(count / ranks * ranks)), root),
              [=, rank = job.rank()] {
                return rank != root ||
                       first_difference<float>(
                           all.first(count / ranks * ranks), [&](std::size_t k) {
                             return value<float>(static_cast<int>(k / (count / ranks)),
                                                 k % (count / ranks));
                           }) == count / ranks * ranks;
              }};
    } else if (operation == 7) {
      const std::size_t part = count / ranks;
      const auto taken = arena.take<float>(part * ranks, draw(own, 2) == 0);
      next = {world.all_to_all(const_buffer_of(values.first(part * ranks)), buffer_of(taken)),
              [=, rank = job.rank()] {
                return first_difference<float>(taken, [&](std::size_t k) {
                         return value<float>(static_cast<int>(k / part),
                                             static_cast<std::size_t>(rank) * part + k % part);
                       }) == taken.size();
              }};
    } else {
      const int to = (job.rank() + 1) % size, from = (job.rank() + size - 1) % size;
      next.work = world.recv(buffer_of(values), from);
      const auto outgoing = arena.take<float>(count, draw(own, 2) == 0);
      fill(outgoing, job.rank());
      pending.push_back({world.send(const_buffer_of(outgoing), to), [] { return true; }});
      next.right = all_right([=](std::size_t k) { return value<float>(from, k); });
    }
    pending.push_back(std::move(next));
    if (draw(own, 3) == 0) pending[draw(own, pending.size())].work.wait();
  }
  std::ranges::shuffle(pending, own);
  for (const Pending& one : pending) {
    one.work.wait();
    if (!one.right())
      throw std::runtime_error(
          fmt::format("wrong values in schedule {} on rank {}", seed, job.rank()));
  }
}

TEST(CommunicatorSchedules, NoLegalScheduleIsTakenForAMismatch) {
  const int by_day = kSanitized ? 252 : 10'000, at_night = kSanitized ? 10'000 : 1'000'000;
  const int schedules = test::is_nightly() ? at_night : by_day;
  const int each = kSanitized ? 63 : 250;  // by day 2 to 5 ranks on both transports
  for (int first = 0; first < schedules; first += each) {
    const int world = first / each, ranks = 2 + world % 4;
    const auto& options = world / 4 % 2 == 0 ? kShared : kTcp;
    SCOPED_TRACE(fmt::format("schedules from {}, {} ranks, {}", first, ranks, label(options)));
    ASSERT_NO_THROW(run_ranks(ranks, options, [first, each](Job& job) {
      Arena arena(job, 2 << 20);
      for (int i = 0; i < each; ++i)
        legal_schedule(job, static_cast<std::uint64_t>(first + i) + 1, arena);
    }));
  }
}

}  // namespace
}  // namespace paceline::collective::testing
