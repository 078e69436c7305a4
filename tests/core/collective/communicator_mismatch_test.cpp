// Ranks that do not do the same: every rank that waits is told who called what, at once, and no
// output has been touched. And no legal schedule is ever taken for one of these.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "tests/core/collective/worlds.h"

namespace paceline::collective::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kCount = 3000;  // 12 kB: longer than what travels before all have called

// The buffers of one rank, as they were before and after a call that must not be carried out.
struct Buffers {
  explicit Buffers(Job& job)
      : memory(job.allocate(kCount * sizeof(double))),
        in(kCount, 1.0F + static_cast<float>(job.rank())) {
    std::ranges::fill(floats(), 9.0F);
  }
  std::span<float> floats() { return {reinterpret_cast<float*>(memory.data()), kCount}; }
  Buffer all() { return buffer_of(floats()); }
  Buffer first(std::size_t count) { return buffer_of(floats().first(count)); }
  Buffer as(Dtype dtype) { return {memory.data(), kCount, dtype}; }
  ConstBuffer input() { return const_buffer_of(in); }
  bool untouched() {
    return std::ranges::all_of(floats(), [](float f) { return f == 9.0F; });
  }
  Allocation memory;
  std::vector<float> in;
};

using Caller = std::function<Work(Communicator&, Buffers&)>;
struct Kind {
  std::string name;
  Caller usual, odd;
  std::string usual_text, odd_text;  // as the failure names them
};

Range own_chunk(const Communicator& world) {
  return Partition::even(kCount, world.size()).chunks[static_cast<std::size_t>(world.rank())];
}

// Parts of 100 elements, the first `more` longer by one at the cost of the second.
std::vector<std::size_t> equal_counts(const Communicator& world, std::size_t more) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(world.size()), 100);
  counts[0] += more;
  counts[1] -= more;
  return counts;
}

Buffer equal_parts(const Communicator& world, Buffers& b) {
  return b.first(100 * static_cast<std::size_t>(world.size()));
}

std::vector<Kind> kinds() {
  const auto sum = [](Communicator& w, Buffers& b) { return w.all_reduce(b.input(), b.all()); };
  const auto broadcast_from = [](int root) {
    return [root](Communicator& w, Buffers& b) { return w.broadcast(b.all(), root); };
  };
  const auto barrier = [](Communicator& w, Buffers&) { return w.barrier(); };
  const auto gather = [](Communicator& w, Buffers& b) {
    return w.all_gather(const_buffer_of(std::span(b.in).first(own_chunk(w).count)), b.all());
  };
  return {
      {"operation", sum, gather, "all_reduce f32[3000] sum", "all_gather f32[3000]"},
      {"operation that carries nothing", gather, barrier, "all_gather f32[3000]", "barrier"},
      {"operation where the others carry nothing", barrier, broadcast_from(0), "barrier",
       "broadcast f32[3000] from root 0"},
      {"dtype", broadcast_from(1),
       [](Communicator& w, Buffers& b) { return w.broadcast(b.as(Dtype::f64), 1); },
       "broadcast f32[3000]", "broadcast f64[3000]"},
      {"count", broadcast_from(0),
       [](Communicator& w, Buffers& b) { return w.broadcast(b.first(2999)); },
       "broadcast f32[3000]", "broadcast f32[2999]"},
      {"reduction", sum,
       [](Communicator& w, Buffers& b) {
         return w.all_reduce(b.input(), b.all(), {.op = ReduceOp::max});
       },
       "all_reduce f32[3000] sum", "all_reduce f32[3000] max"},
      {"root", broadcast_from(0), broadcast_from(1), "from root 0", "from root 1"},
      {"weight",
       [](Communicator& w, Buffers& b) {
         return w.all_reduce(b.input(), b.all(), {.op = ReduceOp::average, .weight = 2});
       },
       [](Communicator& w, Buffers& b) {
         return w.all_reduce(b.input(), b.all(), {.op = ReduceOp::average});
       },
       "all_reduce f32[3000] weighted average", "all_reduce f32[3000] average"},
      {"algorithm",
       [](Communicator& w, Buffers& b) {
         return w.all_reduce(b.input(), b.all(), {.algorithm = "ring"});
       },
       [](Communicator& w, Buffers& b) {
         return w.all_reduce(b.input(), b.all(), {.algorithm = "binomial"});
       },
       "by ring", "by binomial"},
      {"ring all_gather",
       [](Communicator& w, Buffers& b) {
         return w.all_gather(const_buffer_of(std::span(b.in).first(own_chunk(w).count)), b.all(),
                             {.algorithm = "ring"});
       },
       barrier, "all_gather f32[3000] by ring", "barrier"},
      {"root of a reduction",
       [](Communicator& w, Buffers& b) { return w.reduce(b.input(), b.all(), 0); },
       [](Communicator& w, Buffers& b) { return w.reduce(b.input(), b.all(), 1); }, "to root 0",
       "to root 1"},
      {"gather where the others scatter",
       [](Communicator& w, Buffers& b) { return w.scatter(equal_parts(w, b), b.first(100)); },
       [](Communicator& w, Buffers& b) {
         return w.gather(const_buffer_of(std::span(b.in).first(100)), equal_parts(w, b));
       },
       "scatter f32[", "gather f32["},
      {"counts",
       [](Communicator& w, Buffers& b) {
         const auto counts = equal_counts(w, 0);
         return w.all_gather(const_buffer_of(std::span(b.in).first(100)), equal_parts(w, b),
                             {.counts = counts});
       },
       [](Communicator& w, Buffers& b) {
         const auto counts = equal_counts(w, 1);
         return w.all_gather(
             const_buffer_of(std::span(b.in).first(counts[static_cast<std::size_t>(w.rank())])),
             equal_parts(w, b), {.counts = counts});
       },
       "all_gather f32[100+100", "all_gather f32[101+99"},
      {"what is expected of a rank",
       [](Communicator& w, Buffers& b) {
         const auto counts = equal_counts(w, 0);
         return w.all_to_all(const_buffer_of(std::span(b.in).first(100 * counts.size())), counts,
                             equal_parts(w, b), counts);
       },
       [](Communicator& w, Buffers& b) {
         auto sends = equal_counts(w, 0);
         sends[static_cast<std::size_t>(w.rank() == 0 ? 1 : 0)] = 7;
         const std::size_t all = 100 * sends.size() - 93;
         return w.all_to_all(const_buffer_of(std::span(b.in).first(all)), sends, equal_parts(w, b),
                             equal_counts(w, 0));
       },
       "for [100+100", "7"},
      {"nothing where the others have much", sum,
       [](Communicator& w, Buffers& b) { return w.all_reduce(b.first(0)); }, "all_reduce f32[3000]",
       "all_reduce f32[0]"},
  };
}

// 2..5 ranks, whichever differs, on both transports.
void for_every_odd_one(
    const std::function<void(const LocalWorldOptions& options, int ranks, int odd)>& body) {
  for (const auto& options : {kShared, kTcp}) {
    for (int ranks = 2; ranks <= (kSanitized ? 3 : 5); ++ranks) {
      for (int odd = 0; odd < ranks; ++odd) body(options, ranks, odd);
    }
  }
}

// Runs `usual` on all ranks but `odd_rank`, after `good` calls that match.
void expect_mismatch(const Kind& kind, const LocalWorldOptions& options, int ranks, int odd_rank,
                     int good) {
  SCOPED_TRACE(
      fmt::format("{}, {} ranks, rank {} differs, {}", kind.name, ranks, odd_rank, label(options)));
  std::mutex mutex;
  Clock::time_point last_call;
  std::map<int, Clock::time_point> thrown;
  run_ranks(ranks, options, [&](Job& job) {
    Buffers buffers(job);
    const bool odd = job.rank() == odd_rank;
    const auto failure = failure_of([&] {
      // A slow rank may hear of the mismatch while it is still in one of these.
      for (int i = 0; i < good; ++i) job.world().barrier().wait();
      const Work work = (odd ? kind.odd : kind.usual)(job.world(), buffers);
      {
        const std::lock_guard lock(mutex);
        last_call = std::max(last_call, Clock::now());
      }
      work.wait();
    });
    {
      const std::lock_guard lock(mutex);
      thrown[job.rank()] = Clock::now();
    }
    EXPECT_EQ(failure.fault, Fault::mismatch) << failure.what;
    ASSERT_EQ(failure.ranks.size(), 2U) << failure.what;
    EXPECT_TRUE(failure.ranks[0] == odd_rank || failure.ranks[1] == odd_rank);
    const int other = failure.ranks[0] == odd_rank ? failure.ranks[1] : failure.ranks[0];
    EXPECT_THAT(failure.what, HasSubstr(fmt::format("in operation {} of group 'world'", good + 1)));
    const auto says = [&](int rank, const std::string& call) {
      const auto at = failure.what.find(fmt::format("rank {} called ", rank));
      return at != std::string::npos &&
             failure.what.find(call, at) < failure.what.find("rank", at + 6);
    };
    EXPECT_TRUE(says(odd_rank, kind.odd_text)) << failure.what;
    EXPECT_TRUE(says(other, kind.usual_text)) << failure.what;
    EXPECT_TRUE(buffers.untouched()) << "rank " << job.rank();
    EXPECT_EQ(failure_of([&] { job.world().barrier().wait(); }), failure)
        << "the group is dead with the same cause";
  });
  for (const auto& [rank, when] : thrown) EXPECT_LT(when - last_call, 1s) << "rank " << rank;
}

void every_kind(const LocalWorldOptions& options) {
  for (const Kind& kind : kinds()) {
    for (int ranks = 2; ranks <= (kSanitized ? 3 : 5); ++ranks) {
      for (int odd = 0; odd < ranks; ++odd) expect_mismatch(kind, options, ranks, odd, odd % 3);
    }
  }
}

TEST(CommunicatorMismatch, IsNamedOnEveryRankOverSharedMemory) {
  every_kind(kSharedFast);
}
TEST(CommunicatorMismatch, IsNamedOnEveryRankOverTcp) {
  every_kind(kTcpFast);
}

TEST(CommunicatorMismatch, OfReduceScatterIsNamed) {
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(3, options, [](Job& job) {
      std::vector<float> in(9000, 1), out(3000, 9);
      const auto op = job.rank() == 1 ? ReduceOp::min : ReduceOp::sum;
      const auto failure = failure_of([&] {
        job.world().reduce_scatter(const_buffer_of(in), buffer_of(out), {.op = op}).wait();
      });
      EXPECT_EQ(failure.fault, Fault::mismatch);
      EXPECT_THAT(failure.what, HasSubstr("rank 1 called reduce_scatter f32[9000] min"));
      EXPECT_EQ(out, std::vector<float>(3000, 9));
    });
  }
}

TEST(CommunicatorMismatch, WeightedInputIsNotScaledInPlace) {
  run_ranks(3, [](Job& job) {
    std::vector<float> values(5000, 3);
    const auto failure = failure_of([&] {
      if (job.rank() == 2) job.world().barrier().wait();
      else job.world().all_reduce(buffer_of(values), {.op = ReduceOp::average, .weight = 2}).wait();
    });
    EXPECT_EQ(failure.fault, Fault::mismatch);
    EXPECT_EQ(values, std::vector<float>(5000, 3));
  });
}

TEST(CommunicatorMismatch, SwappedOrderIsOne) {
  for_every_odd_one([](const LocalWorldOptions& options, int ranks, int swapped) {
    run_ranks(ranks, options, [swapped](Job& job) {
      std::vector<float> a(2000, 1);
      std::vector<double> b(10, 1);
      const auto failure = failure_of([&] {
        Work first, second;
        if (job.rank() == swapped) {
          second = job.world().all_reduce(buffer_of(b));
          first = job.world().all_reduce(buffer_of(a));
        } else {
          first = job.world().all_reduce(buffer_of(a));
          second = job.world().all_reduce(buffer_of(b));
        }
        first.wait();
        second.wait();
      });
      EXPECT_EQ(failure.fault, Fault::mismatch);
      EXPECT_THAT(failure.what,
                  HasSubstr(fmt::format("rank {} called all_reduce f64[10] sum", swapped)));
      EXPECT_THAT(failure.what, HasSubstr("in operation 1 of"));
    });
  });
}

TEST(CommunicatorMismatch, AnExtraCallMeetsTheNextOne) {
  for_every_odd_one([](const LocalWorldOptions& options, int ranks, int odd) {
    run_ranks(ranks, options, [odd](Job& job) {
      std::vector<float> values(2000, 1);
      const auto failure = failure_of([&] {
        job.world().all_reduce(buffer_of(values)).wait();
        if (job.rank() == odd) job.world().all_reduce(buffer_of(values)).wait();
        job.world().barrier().wait();
      });
      EXPECT_EQ(failure.fault, Fault::mismatch);
      EXPECT_THAT(failure.what,
                  HasSubstr(fmt::format("rank {} called all_reduce f32[2000] sum", odd)));
      EXPECT_THAT(failure.what, HasSubstr("in operation 2 of"));
    });
  });
}

TEST(CommunicatorMismatch, AMissingCallMeetsTheNextOne) {
  for_every_odd_one([](const LocalWorldOptions& options, int ranks, int odd) {
    run_ranks(ranks, options, [odd](Job& job) {
      std::vector<float> values(2000, 1);
      const auto failure = failure_of([&] {
        job.world().barrier().wait();
        if (job.rank() != odd) job.world().all_reduce(buffer_of(values)).wait();
        job.world().broadcast(buffer_of(values)).wait();
      });
      EXPECT_EQ(failure.fault, Fault::mismatch) << failure.what;
      EXPECT_THAT(failure.what,
                  HasSubstr(fmt::format("rank {} called broadcast f32[2000] from root 0", odd)));
      EXPECT_THAT(failure.ranks, ::testing::Contains(odd));
      EXPECT_EQ(values, std::vector<float>(2000, 1));
    });
  });
}

// --- send and recv -------------------------------------------------------------------------------

TEST(CommunicatorMismatch, ASendThatItsRecvDoesNotFitIsNamedOnEveryRank) {
  for_every_odd_one([](const LocalWorldOptions& options, int ranks, int odd) {
    run_ranks(ranks, options, [odd](Job& job) {
      const int next = (job.rank() + 1) % job.world_size(),
                previous = (job.rank() + job.world_size() - 1) % job.world_size();
      std::vector<float> out(100), in(100);
      const auto failure = failure_of([&] {
        const Work sent = job.world().send(
            const_buffer_of(std::span(out).first(job.rank() == odd ? 99 : 100)), next);
        job.world().recv(buffer_of(in), previous).wait();
        sent.wait();
        job.world().barrier().wait();
      });
      EXPECT_EQ(failure.fault, Fault::mismatch) << failure.what;
      EXPECT_THAT(
          failure.what,
          HasSubstr(fmt::format("rank {} sent f32[99] with tag 0 where rank {} receives f32[100]",
                                odd, (odd + 1) % job.world_size())));
    });
  });
}

TEST(CommunicatorMismatch, CrossedSendsAndRecvsEndAtTheirDeadlineAndSayWhatCameInstead) {
  for (const auto& options : {kShared, kTcp}) {
    for (const bool sends : {true, false}) {
      run_ranks(2, options, [sends](Job& job) {
        // Both send, so long that each waits for its recv; or both receive; and one of them has the
        // wrong tag besides.
        std::vector<std::uint8_t> buffer(1 << 20);
        const auto failure = failure_of([&] {
          const int peer = 1 - job.rank();
          if (!sends && job.rank() == 0)
            job.world().send(const_buffer_of(std::span(buffer).first(3)), peer, {.tag = 8}).wait();
          if (sends) job.world().send(const_buffer_of(buffer), peer, {.within = 200ms}).wait();
          else job.world().recv(buffer_of(buffer), peer, {.within = 200ms}).wait();
        });
        EXPECT_EQ(failure.fault, Fault::timed_out) << failure.what;
        EXPECT_THAT(failure.what,
                    HasSubstr(sends ? "send u8[1048576] to rank" : "recv u8[1048576] from rank"));
        // The first to run out of time tells both; rank 0 sent, so only rank 1 has something to
        // tell of it.
        if (sends) {
          EXPECT_THAT(failure.what, HasSubstr("it has called send u8[1048576] to rank"));
        }
      });
    }
  }
}

// --- others that do not come ---------------------------------------------------------------------

TEST(CommunicatorMissing, ARankThatLeavesIsNamed) {
  for_every_odd_one([](const LocalWorldOptions& options, int ranks, int leaver) {
    run_ranks(ranks, options, [leaver](Job& job) {
      std::vector<float> values(2000, 1);
      const auto failure = failure_of([&] {
        job.world().all_reduce(buffer_of(values)).wait();
        if (job.rank() != leaver) job.world().all_reduce(buffer_of(values)).wait();
      });
      if (job.rank() == leaver) return;
      EXPECT_EQ(failure.fault, Fault::peer_lost) << failure.what;
      EXPECT_EQ(failure.ranks, std::vector{leaver}) << failure.what;
      EXPECT_THAT(failure.what, HasSubstr(fmt::format("rank {} has left the job", leaver)));
      EXPECT_THAT(failure.what, HasSubstr("all_reduce f32[2000] sum by "));
      EXPECT_THAT(failure.what, HasSubstr("operation 2 of group 'world'"));
    });
  });
}

TEST(CommunicatorMissing, ARankThatEndsWithWorkInFlightIsNamed) {
  run_ranks(3, [](Job& job) {
    const auto held = std::make_shared<std::vector<float>>(2000, 1.0F);
    std::vector<float>& values = *held;
    const auto failure = failure_of([&] {  // thrown by the call already where rank 1 was quick
      const Work work = job.world().all_reduce(buffer_of(values));
      work.keep(held);
      if (job.rank() != 1) work.wait(Deadline::in(5s));
    });
    if (job.rank() == 1) return;  // unwinds with its Work in flight
    // Rank 2 may have come before rank 1 left: then all is done.
    if (failure.what.empty()) return;
    EXPECT_THAT(failure.ranks, ::testing::Contains(1)) << failure.what;
  });
}

TEST(CommunicatorMissing, TheDeadlineNamesWhoHasNotCalled) {
  for (const auto& options : {kShared, kTcp}) {
    std::atomic<int> failed = 0;
    run_ranks(4, options, [&failed](Job& job) {
      std::vector<float> values(2000, 1);
      if (job.rank() == 1 || job.rank() == 3) {
        while (failed < 2) std::this_thread::yield();
      }
      const auto begin = Clock::now();
      const auto failure =
          failure_of([&] { job.world().all_reduce(buffer_of(values), {.within = 60ms}).wait(); });
      ++failed;
      EXPECT_EQ(failure.fault, Fault::timed_out) << failure.what;
      EXPECT_EQ(failure.ranks, (std::vector{1, 3})) << failure.what;
      EXPECT_THAT(failure.what, HasSubstr("rank 1, 3, which have not called it"));
      EXPECT_THAT(failure.what, HasSubstr("operation 1 of group 'world'"));
      EXPECT_LT(Clock::now() - begin, 1s);
      EXPECT_EQ(values, std::vector<float>(2000, 1));
    });
  }
}

TEST(CommunicatorMissing, TheDeadlineOfACallThatWaitsBehindAnotherCounts) {
  std::atomic<bool> failed = false;
  run_ranks(2, [&failed](Job& job) {
    if (job.rank() == 1) {
      while (!failed) std::this_thread::yield();
      return;
    }
    std::vector<float> values(10);
    const Work first = job.world().barrier();
    const Work second = job.world().all_reduce(buffer_of(values), {.within = 50ms});
    const auto failure = failure_of([&] { second.wait(Deadline::in(5s)); });
    failed = true;
    EXPECT_EQ(failure.fault, Fault::timed_out);
    EXPECT_EQ(failure.ranks, std::vector{1}) << failure.what;
    EXPECT_THAT(failure.what, HasSubstr("all_reduce f32[10] sum"));
    EXPECT_THAT(failure.what, HasSubstr("barrier"));
  });
}

// --- no false alarm ------------------------------------------------------------------------------

// A schedule that all ranks draw from the same seed; each rank's delays come from another.
void legal_schedule(Job& job, std::uint64_t seed, Arena& arena) {
  std::mt19937_64 common(seed), own(seed * 31 + static_cast<std::uint64_t>(job.rank()));
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
      const Range mine = Partition::even(count, size).chunks[static_cast<std::size_t>(job.rank())];
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
      const Range mine = Partition::even(count, size).chunks[static_cast<std::size_t>(job.rank())];
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

TEST(CommunicatorMismatch, NoLegalScheduleIsTakenForOne) {
  const bool nightly = std::getenv("PACELINE_NIGHTLY") != nullptr;
  const int schedules = (kSanitized ? 1'000 : 10'000) * (nightly ? (kSanitized ? 10 : 100) : 1);
  constexpr int kEach = 250;
  for (int first = 0; first < schedules; first += kEach) {
    const int world = first / kEach, ranks = 2 + world % 4;
    const auto& options = world / 4 % 2 == 0 ? kShared : kTcp;
    SCOPED_TRACE(fmt::format("schedules from {}, {} ranks, {}", first, ranks, label(options)));
    ASSERT_NO_THROW(run_ranks(ranks, options, [first](Job& job) {
      Arena arena(job, 2 << 20);
      for (int i = 0; i < kEach; ++i)
        legal_schedule(job, static_cast<std::uint64_t>(first + i) + 1, arena);
    }));
  }
}

}  // namespace
}  // namespace paceline::collective::testing
