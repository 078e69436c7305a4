// The communicator as its callers see it. Results, bits and mismatches have files of their own.
#include "paceline/core/collective/group/communicator.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <limits>
#include <mutex>
#include <numeric>
#include <ranges>
#include <thread>

#include "paceline/core/collective/call/call.h"
#include "tests/core/collective/worlds.h"

namespace paceline::collective::testing {
namespace {

using ::testing::HasSubstr;

TEST(Communicator, AWorldOfOneNeedsNobody) {
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(1, options, [](Job& job) {
      std::vector<float> values = {1, 2, 3}, out(3);
      job.world().all_reduce(const_buffer_of(values), buffer_of(out)).wait();
      EXPECT_EQ(out, values);
      job.world().broadcast(buffer_of(values)).wait();
      job.world().all_gather(const_buffer_of(values), buffer_of(out)).wait();
      job.world()
          .reduce_scatter(const_buffer_of(values), buffer_of(out), {.op = ReduceOp::average})
          .wait();
      job.world().barrier().wait();
      EXPECT_EQ(out, values);
    });
  }
}

// Also covers paceline/core/collective/call/arguments.h.
TEST(Communicator, RefusesMisuseAndLivesOn) {
  run_ranks(2, [](Job& job) {
    Communicator& world = job.world();
    std::vector<float> a(8), b(8);
    std::vector<std::int64_t> whole(8);
    std::vector<std::byte> long_note(kLongestNote + 1);
    const auto refused = [](const auto& call) { return failure_of([&] { call().wait(); }); };
    const auto expect_misuse = [&](const Failure& failure, const std::string& text) {
      EXPECT_EQ(failure.fault, Fault::misuse) << failure.what;
      EXPECT_THAT(failure.what, HasSubstr(text));
    };
    expect_misuse(refused([&] {
                    return world.all_reduce(const_buffer_of(a), buffer_of(std::span(b).first(7)));
                  }),
                  "they must be equal");
    expect_misuse(refused([&] {
                    return world.all_reduce(const_buffer_of(std::span(a).first(4)),
                                            buffer_of(std::span(a).subspan(2, 4)));
                  }),
                  "overlap");
    expect_misuse(
        refused([&] { return world.all_reduce(buffer_of(whole), {.op = ReduceOp::average}); }),
        "average of i64");
    expect_misuse(refused([&] { return world.all_reduce(buffer_of(a), {.op = ReduceOp::bxor}); }),
                  "no bxor of f32");
    expect_misuse(refused([&] { return world.all_reduce(buffer_of(a), {.weight = 1}); }),
                  "a weight goes with ReduceOp::average");
    for (const double weight : {-1.0, std::numeric_limits<double>::quiet_NaN(),
                                std::numeric_limits<double>::infinity()}) {
      expect_misuse(refused([&] {
                      return world.all_reduce(buffer_of(a),
                                              {.op = ReduceOp::average, .weight = weight});
                    }),
                    "must be finite and not negative");
    }
    expect_misuse(refused([&] { return world.all_reduce(buffer_of(a), {.note = long_note}); }),
                  "a note of 65537 bytes");
    expect_misuse(refused([&] { return world.all_reduce(buffer_of(a), {.algorithm = "magic"}); }),
                  "no algorithm 'magic'");
    expect_misuse(refused([&] {
                    return world.reduce_scatter(const_buffer_of(a),
                                                buffer_of(std::span(b).first(3)));
                  }),
                  "takes f32[4] of rank");
    expect_misuse(refused([&] {
                    return world.all_gather(const_buffer_of(std::span(a).first(3)), buffer_of(b));
                  }),
                  "takes f32[4] of rank");
    expect_misuse(refused([&] { return world.broadcast(buffer_of(a), 2); }),
                  "root 2 is not in 0..1");
    expect_misuse(refused([&] { return world.barrier({.algorithm = "direct"}); }), "no algorithms");
    expect_misuse(refused([&] {
                    return world.broadcast(Buffer{nullptr, 3, Dtype::f32});
                  }),
                  "without memory");
    expect_misuse(refused([&] {
                    return world.broadcast(
                        Buffer{a[0] == 0 ? reinterpret_cast<std::byte*>(a.data()) : nullptr,
                               3,
                               Dtype::f32,
                               {Memory::Kind::cuda}});
                  }),
                  "device memory");
    std::iota(a.begin(), a.end(), 0.0F);
    world.all_reduce(buffer_of(a)).wait();
    EXPECT_EQ(a[3], 6);
  });
}

TEST(Communicator, RefusesPartsThatDoNotAddUpAndLivesOn) {
  run_ranks(2, [](Job& job) {
    Communicator& world = job.world();
    std::vector<float> a(8), b(8);
    const std::vector<std::size_t> counts = {3, 5}, three = {1, 2, 3}, wrong = {4, 5};
    const auto refused = [](const auto& call) { return failure_of([&] { call().wait(); }).what; };
    EXPECT_THAT(refused([&] { return world.reduce(buffer_of(a), 2); }),
                HasSubstr("root 2 is not in 0..1"));
    EXPECT_THAT(refused([&] {
                  return world.gather(const_buffer_of(a), buffer_of(b), 0, {.counts = three});
                }),
                HasSubstr("3 counts for 2 ranks"));
    EXPECT_THAT(refused([&] {
                  return world.gather(const_buffer_of(a), buffer_of(b), 0, {.counts = counts});
                }),
                HasSubstr("gather: "));
    EXPECT_THAT(refused([&] {
                  return world.scatter(const_buffer_of(a), buffer_of(b), 1, {.counts = counts});
                }),
                HasSubstr("scatter: "));
    EXPECT_THAT(refused([&] {
                  return world.all_to_all(const_buffer_of(std::span(a).first(7)),
                                          buffer_of(std::span(b).first(7)));
                }),
                HasSubstr("give counts"));
    EXPECT_THAT(
        refused([&] { return world.all_to_all(const_buffer_of(a), counts, buffer_of(b), wrong); }),
        HasSubstr("add up to 8 and 9"));
    EXPECT_THAT(refused([&] {
                  return world.all_to_all(const_buffer_of(a), counts, buffer_of(b),
                                          std::vector<std::size_t>{5, 3});
                }),
                HasSubstr("sends itself"));
    EXPECT_THAT(refused([&] {
                  return world.all_to_all(const_buffer_of(a), counts, buffer_of(b), counts,
                                          {.algorithm = "bruck"});
                }),
                HasSubstr("algorithm 'bruck' needs the same count for all pairs of ranks"));
    world.barrier().wait();
  });
}

TEST(Communicator, CarriesACallOnTheBoardByItsNameWhereRanksShareMemory) {
  for (const int ranks : {2, 9}) {
    run_ranks(ranks, kShared, [&](Job& job) {
      Communicator& world = job.world();
      EXPECT_EQ(std::ranges::count(world.algorithms(Operation::all_reduce), "board"), 1);
      EXPECT_EQ(std::ranges::count(world.algorithms(Operation::broadcast), "board"), 0);
      for (const std::size_t count : {1, 3, 1000, 100'000}) {
        std::vector<float> values(count, static_cast<float>(job.rank() + 1));
        world.all_reduce(buffer_of(values), {.algorithm = "board"}).wait();
        EXPECT_EQ(values.back(), static_cast<float>(ranks * (ranks + 1) / 2)) << count;
      }
    });
  }
}

TEST(Communicator, TellsWhatCarriesACall) {
  constexpr std::size_t kLong = 64 << 20;
  for (const auto& [options, shortest, longest] :
       {std::tuple{kShared, "board", "board"}, {kTcp, "links", "direct"}}) {
    run_ranks(2, options, [&](Job& job) {
      const Communicator& world = job.world();
      EXPECT_EQ(world.carrier(Operation::all_reduce, 4), shortest);
      EXPECT_EQ(world.carrier(Operation::barrier, 0), shortest);
      EXPECT_EQ(world.carrier(Operation::all_reduce, kLong), longest);
      EXPECT_EQ(world.carrier(Operation::all_gather, kLong),
                world.forecasts(Operation::all_gather, kLong).front().carrier);
    });
  }
}

TEST(Communicator, ForecastsBeginWithTheCarrierAndGoOnWithTheCheapest) {
  constexpr std::array kOperations = {Operation::all_reduce, Operation::reduce_scatter,
                                      Operation::all_gather, Operation::broadcast,
                                      Operation::reduce,     Operation::all_to_all};
  const auto expect = [&](const Communicator& world, Operation operation, std::size_t bytes) {
    const auto forecasts = world.forecasts(operation, bytes);
    EXPECT_EQ(forecasts.front().carrier, world.carrier(operation, bytes));
    EXPECT_TRUE(std::ranges::is_sorted(forecasts | std::views::drop(1), {}, &Forecast::seconds));
    EXPECT_TRUE(world.size() == 1 || forecasts.front().seconds > 0);
    const auto names = world.algorithms(operation);
    for (const std::string_view name : names)
      EXPECT_EQ(std::ranges::count(forecasts, name, &Forecast::carrier), 1) << name;
    EXPECT_LE(forecasts.size(), names.size() + 1);
  };
  for (const auto& options : {kShared, kTcp, kSharedFast, kTcpFast}) {
    for (const int ranks : {1, 2, 7, 8, 9}) {
      run_ranks(ranks, options, [&](Job& job) {
        if (job.rank() > 0) return;
        for (const Operation operation : kOperations) {
          for (const std::size_t bytes : {4, 1 << 10, 64 << 10, 1 << 20, 64 << 20}) {
            SCOPED_TRACE(fmt::format("{} of {} bytes, {} ranks, {}", name_of(operation), bytes,
                                     ranks, label(options)));
            expect(job.world(), operation, bytes);
          }
        }
      });
    }
  }
  run_ranks(7, kShared, [](Job& job) {
    const Forecast first = job.world().forecasts(Operation::all_reduce, 64 << 20).front();
    EXPECT_EQ(first.carrier, "board") << "whatever the model says";
  });
}

TEST(Communicator, AVerdictNamesWhatCarriesTheCall) {
  for (const auto& [options, carrier] : {std::pair{kShared, "by board"}, {kTcp, "by links"}}) {
    run_ranks(2, options, [&](Job& job) {
      job.world().barrier().wait();
      if (job.rank() == 1) return;
      std::vector<float> values(10);
      const Failure failure =
          failure_of([&] { job.world().all_reduce(buffer_of(values), {.within = 100ms}).wait(); });
      EXPECT_THAT(failure.what, HasSubstr(fmt::format("all_reduce f32[10] sum {}", carrier)));
    });
  }
}

TEST(Communicator, RefusesTheBoardByNameWhereThereIsNoneOrTheCallDoesNotSuitIt) {
  const auto expect_misuse = [](const auto& call, const std::string& text) {
    const Failure failure = failure_of([&] { call().wait(); });
    EXPECT_EQ(failure.fault, Fault::misuse) << failure.what;
    EXPECT_THAT(failure.what, HasSubstr(text));
  };
  run_ranks(2, kTcp, [&](Job& job) {
    std::vector<float> a(3, 1);
    EXPECT_EQ(std::ranges::count(job.world().algorithms(Operation::all_reduce), "board"), 0);
    expect_misuse([&] { return job.world().all_reduce(buffer_of(a), {.algorithm = "board"}); },
                  "share memory on one host");
  });
  run_ranks(2, kShared, [&](Job& job) {
    std::vector<float> a(3, 1);
    const AllReduceOptions weighted = {.op = ReduceOp::average, .weight = 1, .algorithm = "board"};
    expect_misuse([&] { return job.world().all_reduce(buffer_of(a), weighted); },
                  "without weight and note");
    expect_misuse([&] { return job.world().broadcast(buffer_of(a), 0, {.algorithm = "board"}); },
                  "barriers and all_reduces");
  });
}

TEST(Communicator, AbortEndsTheGenerationWithItsReasonOnEveryRank) {
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(3, options, [](Job& job) {
      std::vector<float> values(2000, 1);
      const auto failure = failure_of([&] {  // thrown by the call already where rank 1 was quick
        const Work work = job.rank() == 1 ? job.world().recv(buffer_of(values), 0)
                                          : job.world().all_reduce(buffer_of(values));
        if (job.rank() == 1) {
          job.world().abort("the loss is not a number");
          EXPECT_TRUE(work.done());
        }
        work.wait(Deadline::in(5s));
        job.world().barrier().wait();
      });
      EXPECT_EQ(failure.fault, Fault::cancelled) << failure.what;
      EXPECT_EQ(failure.ranks, std::vector{1});
      EXPECT_EQ(failure.what, "rank 1 aborted group 'world': the loss is not a number");
      EXPECT_EQ(failure_of([&] { job.world().barrier().wait(); }), failure);
    });
  }
}

TEST(Communicator, NotesAndWeightsReachEveryRank) {
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(4, options, [](Job& job) {
      for (const std::size_t length : {std::size_t{0}, std::size_t{5}, kLongestNote}) {
        std::vector<std::byte> note(length, std::byte(job.rank() + 1));
        std::vector<float> values(10, 1);
        const Work work = job.world().all_reduce(
            buffer_of(values), {.op = ReduceOp::average, .weight = job.rank(), .note = note});
        std::ranges::fill(note, std::byte{0});  // it was copied
        work.wait();
        EXPECT_EQ(work.total_weight(), 6);
        for (int rank = 0; rank < 4; ++rank) {
          const Bytes theirs = work.note(rank);
          EXPECT_EQ(std::vector(theirs.begin(), theirs.end()),
                    std::vector(length, std::byte(rank + 1)));
        }
        EXPECT_TRUE(work.note(4).empty());
        EXPECT_TRUE(work.note(-1).empty());
      }
    });
  }
}

TEST(Communicator, CountsExactlyWhatTheMethodsCost) {
  constexpr std::size_t kCount = 1003;
  for (const auto& options : {kSharedFast, kTcpFast}) {
    for (int ranks = 2; ranks <= 8; ++ranks) {
      run_ranks(ranks, options, [ranks](Job& job) {
        const auto n = static_cast<std::size_t>(ranks), r = static_cast<std::size_t>(job.rank());
        const auto chunk = [n](std::size_t i) {
          return Partition::even(kCount, static_cast<int>(n)).chunks[i % n].count * sizeof(float);
        };
        const std::size_t all = kCount * sizeof(float), own = chunk(r);
        Allocation memory = job.allocate(all);
        std::vector<float> ordinary(kCount);
        const auto spent = [&](std::string_view algorithm) {
          const Traffic before = job.world().traffic();
          const std::span<float> values =
              job.rank() % 2 == 0 ? ordinary
                                  : std::span(reinterpret_cast<float*>(memory.data()), kCount);
          job.world().all_reduce(buffer_of(values), {.algorithm = algorithm}).wait();
          const Traffic after = job.world().traffic();
          EXPECT_EQ(after.operations - before.operations, 1U);
          return std::array{after.messages_sent - before.messages_sent,
                            after.bytes_sent - before.bytes_sent,
                            after.bytes_reduced - before.bytes_reduced};
        };
        EXPECT_EQ(spent("direct"), (std::array<std::uint64_t, 3>{
                                       2 * (n - 1), all - own + (n - 1) * own, (n - 1) * own}));
        EXPECT_EQ(spent("ring"),
                  (std::array<std::uint64_t, 3>{2 * (n - 1), 2 * all - chunk(r + 1) - chunk(r + 2),
                                                all - chunk(r)}));
        std::size_t edges_down = 0;
        while ((r == 0 || r % (std::size_t{2} << edges_down) == 0) &&
               (std::size_t{1} << edges_down) < n)
          ++edges_down;
        std::size_t children = 0;
        for (std::size_t i = 0; i < edges_down; ++i)
          children += r + (std::size_t{1} << i) < n ? 1 : 0;
        const std::size_t messages = children + (r == 0 ? 0 : 1);
        EXPECT_EQ(spent("binomial"),
                  (std::array<std::uint64_t, 3>{messages, messages * all, children * all}));
      });
    }
  }
}

TEST(Communicator, ManyCallsInFlightEndInAnyOrderOfWaits) {
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(3, options, [](Job& job) {
      constexpr int kCalls = 100;
      std::vector<std::vector<float>> values;
      std::vector<Work> works;
      for (int i = 0; i < kCalls; ++i)
        values.emplace_back(static_cast<std::size_t>(i * 37 % 1000),
                            static_cast<float>(i + job.rank()));
      for (int i = 0; i < kCalls; ++i) {
        auto& mine = values[static_cast<std::size_t>(i)];
        if (i % 3 == 0) works.push_back(job.world().broadcast(buffer_of(mine), i % 2));
        else
          works.push_back(job.world().all_reduce(
              buffer_of(mine), {.op = i % 3 == 1 ? ReduceOp::sum : ReduceOp::min}));
      }
      for (int i = kCalls - 1; i >= 0; i -= 2) works[static_cast<std::size_t>(i)].wait();
      for (const Work& work : works) work.wait();
      for (int i = 0; i < kCalls; ++i) {
        const float wanted = static_cast<float>(i % 3 == 0   ? i + i % 2
                                                : i % 3 == 1 ? 3 * i + 3
                                                             : i);
        for (const float v : values[static_cast<std::size_t>(i)])
          ASSERT_EQ(v, wanted) << "call " << i;
      }
      EXPECT_EQ(job.world().traffic().operations, 100U);
    });
  }
}

TEST(Communicator, TakesCallsFromSeveralThreadsInTheirOrder) {
  run_ranks(2, [](Job& job) {
    std::mutex order;
    int next = 0;
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (;;) {
          std::vector<std::int64_t> values(64);
          Work work;
          int call = 0;
          {
            const std::lock_guard lock(order);
            call = next++;
            if (call >= 200) return;
            values.assign(static_cast<std::size_t>(call % 64) + 1, call + job.rank());
            work = job.world().all_reduce(buffer_of(values));
          }
          work.wait();
          EXPECT_EQ(values.back(), 2 * call + 1);
        }
      });
    }
  });
}

TEST(Communicator, TellsItsTrafficInsideACallback) {
  run_ranks(2, [](Job& job) {
    std::atomic<std::uint64_t> operations = 0;
    const Work work = job.world().barrier();
    work.on_done([&](const Result<>&) { operations = job.world().traffic().operations; });
    work.wait();
    job.world().barrier().wait();
    EXPECT_GE(operations, 1U);
  });
}

}  // namespace
}  // namespace paceline::collective::testing
