// Calls of so many ranks that they go by assent (agreement/fingerprint_barrier.h), in both its
// forms: what the others are told when one of them does not do as they do.
#include <gmock/gmock.h>

#include <atomic>

#include "paceline/core/collective/agreement/fingerprint_barrier.h"
#include "paceline/core/collective/group/communicator.h"
#include "tests/core/collective/worlds.h"

namespace paceline::collective::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 11;
static_assert(kRanks >= FingerprintBarrier::kFewestRanks);

// Each rank has a processor, or they take turns on one; they share memory, or they do not.
struct Setting {
  FingerprintBarrier::Form form;
  bool share_memory;
};
class ManyRanks : public ::testing::TestWithParam<Setting> {
 protected:
  const LocalWorldOptions options = {
      .share_memory = GetParam().share_memory,
      .processors = GetParam().form == FingerprintBarrier::Form::tree ? 1.0 : kRanks};
};
INSTANTIATE_TEST_SUITE_P(By, ManyRanks,
                         ::testing::Values(Setting{FingerprintBarrier::Form::dissemination, false},
                                           Setting{FingerprintBarrier::Form::tree, false},
                                           Setting{FingerprintBarrier::Form::dissemination, true},
                                           Setting{FingerprintBarrier::Form::tree, true}),
                         [](const auto& setting) {
                           return std::string(setting.param.form == FingerprintBarrier::Form::tree
                                                  ? "Tree"
                                                  : "Dissemination") +
                                  (setting.param.share_memory ? "InSharedMemory" : "");
                         });

// The failure that each rank is told, and the longest time that it took.
struct Told {
  std::vector<Failure> failures = std::vector<Failure>(kRanks, Failure{});
  std::atomic<std::int64_t> longest_ms = 0;
};

void told(Told& all, const LocalWorldOptions& options,
          const std::function<void(Communicator&)>& body) {
  run_ranks(kRanks, options, [&](Job& job) {
    auto begin = Clock::now();
    try {
      job.world().barrier().wait();  // some may be through it, and fail for all, before others are
      begin = Clock::now();
      body(job.world());
    } catch (const Error& error) {
      all.failures[static_cast<std::size_t>(job.rank())] = error.failure();
      const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
      std::int64_t longest = all.longest_ms;
      while (took.count() > longest && !all.longest_ms.compare_exchange_weak(longest, took.count()))
        continue;
    }
  });
}

TEST_P(ManyRanks, AMismatchIsNamedOnEveryRankWithinASecondWhoeverDiffers) {
  for (const int odd : {0, 1, 6, kRanks - 1}) {
    for (const std::size_t count : {3, 50'000}) {
      Told all;
      told(all, options, [&](Communicator& world) {
        std::vector<float> values(count, 1.0F);
        if (world.rank() == odd) world.broadcast(buffer_of(values), odd).wait();
        else world.all_reduce(buffer_of(values)).wait();
      });
      for (const Failure& failure : all.failures) {
        EXPECT_EQ(failure.fault, Fault::mismatch) << failure.what;
        EXPECT_THAT(failure.ranks, ::testing::Contains(odd)) << failure.what;
        EXPECT_THAT(failure.what, HasSubstr("broadcast"));
      }
      EXPECT_LT(all.longest_ms, kSanitized ? 5000 : 1000);
    }
  }
}

TEST_P(ManyRanks, ARankThatLeavesWithoutTheCallIsNamedByAllOthers) {
  for (const int gone : {0, 4, kRanks - 1}) {
    Told all;
    told(all, options, [&](Communicator& world) {
      if (world.rank() != gone) world.barrier().wait();
    });
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == gone) continue;
      const Failure& failure = all.failures[static_cast<std::size_t>(rank)];
      EXPECT_EQ(failure.fault, Fault::peer_lost) << failure.what;
      EXPECT_EQ(failure.ranks, std::vector{gone}) << failure.what;
    }
  }
}

TEST_P(ManyRanks, ADeadlineNamesTheRankAloneThatHasNotCalled) {
  constexpr int kLate = 5;
  std::atomic<int> ended = 0, called = 0;
  Told all;
  told(all, options, [&](Communicator& world) {
    std::vector<float> values(10, 1.0F);
    const bool is_hurried = world.rank() == 0;
    if (world.rank() == kLate) {
      const Deadline deadline = Deadline::in(60s);
      while (ended < kRanks - 1 && !deadline.passed()) std::this_thread::yield();
      return;
    }
    while (is_hurried && called < kRanks - 2 && ended == 0) std::this_thread::yield();
    try {
      const Work work = world.all_reduce(buffer_of(values), {.within = is_hurried ? 800ms : 60s});
      ++called;
      work.wait();
    } catch (...) {
      ++ended;
      throw;
    }
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    if (rank == kLate) continue;
    const Failure& failure = all.failures[static_cast<std::size_t>(rank)];
    EXPECT_EQ(failure.fault, Fault::timed_out) << failure.what;
    EXPECT_EQ(failure.ranks, std::vector{kLate}) << failure.what;
  }
}

// Ranks that have ended an operation leave at once; the others still know that they had called.
TEST_P(ManyRanks, WhoLeavesRightAfterACallIsMissedByNobody) {
  for (int round = 0; round < 20; ++round) {
    run_ranks(kRanks, options, [&](Job& job) {
      std::vector<float> values(1000, 1.0F);
      job.world().broadcast(buffer_of(values), round % kRanks).wait();
      job.world().all_reduce(buffer_of(values)).wait();
      EXPECT_EQ(values.back(), static_cast<float>(kRanks));
    });
  }
}

// Calls with notes go to all, those without by assent: in any order.
TEST_P(ManyRanks, CallsThatAreToldToAllStandBetweenOthers) {
  run_ranks(kRanks, options, [&](Job& job) {
    for (int turn = 0; turn < 10; ++turn) {
      std::vector<float> values(100, 1.0F);
      const std::vector<std::byte> note(1, static_cast<std::byte>(job.rank() + turn));
      const Work noted = job.world().all_reduce(buffer_of(values), {.note = note});
      noted.wait();
      for (int rank = 0; rank < kRanks; ++rank)
        EXPECT_EQ(noted.note(rank)[0], static_cast<std::byte>(rank + turn));
      job.world().barrier().wait();
      job.world().all_reduce(buffer_of(values), {.op = ReduceOp::average, .weight = 2.0}).wait();
      EXPECT_EQ(values.front(), static_cast<float>(kRanks));
    }
  });
}

// Without notes a call takes frames for its tree or its rounds, and none from each rank to each.
TEST_P(ManyRanks, AWeightedAverageAndABroadcastAreToldInFewFrames) {
  std::atomic<std::uint64_t> announced = 0;
  run_ranks(kRanks, options, [&](Job& job) {
    Communicator& world = job.world();
    world.barrier().wait();
    const std::uint64_t before = world.traffic().announcements;
    std::vector<float> values(1000, static_cast<float>(world.rank()));
    world
        .all_reduce(buffer_of(values),
                    {.op = ReduceOp::average, .weight = static_cast<double>(world.rank())})
        .wait();
    EXPECT_EQ(values.back(), 7.0F) << "the squares of 0 to 10 over their sum: 385 / 55";
    world.broadcast(buffer_of(values), 3).wait();
    EXPECT_EQ(values.back(), 7.0F);
    announced += world.traffic().announcements - before;
  });
  const std::uint64_t rounds = 4;
  const std::uint64_t frames =
      GetParam().form == FingerprintBarrier::Form::tree ? 2 * (kRanks - 1) : kRanks * rounds;
  EXPECT_EQ(announced, 2 * frames);
}

TEST_P(ManyRanks, WeightsThatDifferAreHeardByAllInAnyOrderOfCalls) {
  run_ranks(kRanks, options, [&](Job& job) {
    for (int turn = 0; turn < 10; ++turn) {
      std::vector<float> values(10, static_cast<float>(job.rank()));
      const double weight = job.rank() == turn ? 1 : 0;
      const Work work =
          job.world().all_reduce(buffer_of(values), {.op = ReduceOp::average, .weight = weight});
      work.wait();
      EXPECT_EQ(values.front(), static_cast<float>(turn));
      EXPECT_EQ(work.total_weight(), 1.0);
    }
  });
}

}  // namespace
}  // namespace paceline::collective::testing
