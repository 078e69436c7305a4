// Ranks that do not do the same: every rank that waits is told who called what, at once, and no
// output has been touched.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <mutex>

#include "tests/core/collective/worlds.h"
#include "tests/support/nightly.h"

namespace paceline::collective::testing {
namespace {

using ::testing::HasSubstr;

// The buffers of one rank, as they were before and after a call that must not be carried out.
struct Buffers {
  Buffers(Job& job, std::size_t elements)
      : count(elements),
        memory(job.allocate(count * sizeof(double))),
        in(count, 1.0F + static_cast<float>(job.rank())) {
    std::ranges::fill(floats(), 9.0F);
  }
  std::span<float> floats() { return {reinterpret_cast<float*>(memory.data()), count}; }
  Buffer all() { return buffer_of(floats()); }
  Buffer first(std::size_t some) { return buffer_of(floats().first(some)); }
  Buffer as(Dtype dtype) { return {memory.data(), count, dtype}; }
  ConstBuffer input() { return const_buffer_of(in); }
  bool untouched() {
    return std::ranges::all_of(floats(), [](float f) { return f == 9.0F; });
  }
  const std::size_t count;
  Allocation memory;
  std::vector<float> in;
};

using Caller = std::function<Work(Communicator&, Buffers&)>;
struct Kind {
  std::string name;
  Caller usual, odd;
  std::string usual_text, odd_text;  // as the failure names them, with N for the elements
};

std::string with_count(std::string text, std::size_t count) {
  for (const auto& [mark, number] : {std::pair("[N]", count), std::pair("[N-1]", count - 1)}) {
    const auto at = text.find(mark);
    if (at != std::string::npos) text.replace(at, std::strlen(mark), fmt::format("[{}]", number));
  }
  return text;
}

ElementRange own_chunk(const Communicator& world, const Buffers& b) {
  return Partition::even(b.count, world.size()).chunks[static_cast<std::size_t>(world.rank())];
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
    return w.all_gather(const_buffer_of(std::span(b.in).first(own_chunk(w, b).count)), b.all());
  };
  return {
      {"operation", sum, gather, "all_reduce f32[N] sum", "all_gather f32[N]"},
      {"operation that carries nothing", gather, barrier, "all_gather f32[N]", "barrier"},
      {"operation where the others carry nothing", barrier, broadcast_from(0), "barrier",
       "broadcast f32[N] from root 0"},
      {"dtype", broadcast_from(1),
       [](Communicator& w, Buffers& b) { return w.broadcast(b.as(Dtype::f64), 1); },
       "broadcast f32[N]", "broadcast f64[N]"},
      {"count", broadcast_from(0),
       [](Communicator& w, Buffers& b) { return w.broadcast(b.first(b.count - 1)); },
       "broadcast f32[N]", "broadcast f32[N-1]"},
      {"reduction", sum,
       [](Communicator& w, Buffers& b) {
         return w.all_reduce(b.input(), b.all(), {.op = ReduceOp::max});
       },
       "all_reduce f32[N] sum", "all_reduce f32[N] max"},
      {"root", broadcast_from(0), broadcast_from(1), "from root 0", "from root 1"},
      {"weight",
       [](Communicator& w, Buffers& b) {
         return w.all_reduce(b.input(), b.all(), {.op = ReduceOp::average, .weight = 2});
       },
       [](Communicator& w, Buffers& b) {
         return w.all_reduce(b.input(), b.all(), {.op = ReduceOp::average});
       },
       "all_reduce f32[N] weighted average", "all_reduce f32[N] average"},
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
         return w.all_gather(const_buffer_of(std::span(b.in).first(own_chunk(w, b).count)), b.all(),
                             {.algorithm = "ring"});
       },
       barrier, "all_gather f32[N] by ring", "barrier"},
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
      {"counts of one alone",
       [](Communicator& w, Buffers& b) {
         const auto counts = equal_counts(w, 0);
         return w.all_to_all(const_buffer_of(std::span(b.in).first(100 * counts.size())), counts,
                             equal_parts(w, b), counts);
       },
       [](Communicator& w, Buffers& b) {
         const auto all = static_cast<std::size_t>(100 * w.size());
         return w.all_to_all(const_buffer_of(std::span(b.in).first(all)), equal_parts(w, b));
       },
       "for [100+100", "all_to_all f32["},
      {"nothing where the others have much", sum,
       [](Communicator& w, Buffers& b) { return w.all_reduce(b.first(0)); }, "all_reduce f32[N]",
       "all_reduce f32[0]"},
  };
}

// Runs `usual` on all ranks but `odd_rank`, after `good` calls that match.
void expect_mismatch(const Kind& kind, const LocalWorldOptions& options, int ranks, int odd_rank,
                     int good, std::size_t count) {
  SCOPED_TRACE(
      fmt::format("{}, {} ranks, rank {} differs, {}", kind.name, ranks, odd_rank, label(options)));
  std::mutex mutex;
  Clock::time_point last_call;
  std::map<int, Clock::time_point> thrown;
  run_ranks(ranks, options, [&](Job& job) {
    Buffers buffers(job, count);
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
    EXPECT_TRUE(says(odd_rank, with_count(kind.odd_text, count))) << failure.what;
    EXPECT_TRUE(says(other, with_count(kind.usual_text, count))) << failure.what;
    EXPECT_TRUE(buffers.untouched()) << "rank " << job.rank();
    EXPECT_EQ(failure_of([&] { job.world().barrier().wait(); }), failure)
        << "the group is dead with the same cause";
  });
  for (const auto& [rank, when] : thrown) EXPECT_LT(when - last_call, 1s) << "rank " << rank;
}

void every_kind(const LocalWorldOptions& options) {
  for (const Kind& kind : kinds()) {
    for (int ranks = test::is_brief() ? 3 : 2; ranks <= (kSanitized ? 3 : 5); ++ranks) {
      for (int odd = test::is_brief() ? 1 : 0; odd < ranks; ++odd) {
        // 12 kB go over the board, or before all have called; of 120 kB nothing does.
        for (const std::size_t count : {3000, 30000})
          expect_mismatch(kind, options, ranks, odd, odd % 3, count);
      }
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
          if (sends) job.world().send(const_buffer_of(buffer), peer, {.within = 1s}).wait();
          else job.world().recv(buffer_of(buffer), peer, {.within = 1s}).wait();
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

}  // namespace
}  // namespace paceline::collective::testing
