// A rank dies, in each phase of each algorithm: before each of the frames that it would send. All
// others are told of it, by name, and in which operation (covers communicator.h, program_carrier.h,
// group.h and generation.h; processes that are killed:
// tests/processes/collective_failure_test.cpp).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <latch>

#include "paceline/core/collective/program/algorithm_catalogue.h"
#include "paceline/core/collective/program/contract.h"
#include "tests/core/collective/worlds.h"
#include "tests/support/any_call.h"
#include "tests/support/mortal_link.h"
#include "tests/support/nightly.h"

namespace paceline::collective::testing {
namespace {

using test::Life;

struct Death {
  Algorithm algorithm;
  LocalWorldOptions options;
  int ranks, victim;
  std::size_t count;  // floats; a multiple of ranks
  bool allocated;

  std::string describe(long frames) const {
    return fmt::format("{} by {} of {} floats{}, {}: rank {} of {} dies after {} frames",
                       name_of(algorithm.operation), algorithm.name, count,
                       allocated ? " from allocate" : "", label(options), victim, ranks, frames);
  }
};

// Two buffers of a rank; its operation may outlive the rank's last use of them.
struct CallBuffers {
  CallBuffers(Job& job, std::size_t count, bool allocated) {
    if (allocated) memory = job.allocate(2 * count * sizeof(float));
    else ordinary.resize(2 * count);
    const auto all = allocated ? std::span(reinterpret_cast<float*>(memory.data()), 2 * count)
                               : std::span(ordinary);
    std::ranges::fill(all, static_cast<float>(job.rank() + 1));
    in = buffer_of(all.first(count));
    out = buffer_of(all.last(count));
  }
  Allocation memory;
  std::vector<float> ordinary;
  Buffer in, out;
};

// Returns how many frames the victim has sent.
long die_after(const Death& death, long frames) {
  SCOPED_TRACE(death.describe(frames));
  Life life;
  std::latch all_told(death.ranks);
  run_ranks(death.ranks, test::with_mortal_rank(death.options, death.victim, life), [&](Job& job) {
    CallBuffers buffers(job, death.count, death.allocated);
    const bool dies = job.rank() == death.victim;
    const auto failure = failure_of([&] {
      job.world().barrier().wait(Deadline::in(5s));
      if (dies) life.lives_for(frames, job);
      const Work work = test::call_any(job.world(), death.algorithm.operation, death.algorithm.name,
                                       buffers.in, buffers.out);
      if (dies) return life.end_with(work, job);
      work.wait(Deadline::in(5s));
      job.world().barrier().wait(Deadline::in(5s));
    });
    all_told.arrive_and_wait();  // no rank uses a buffer any more
    if (dies) return;
    EXPECT_EQ(failure.fault, Fault::peer_lost) << "rank " << job.rank() << ": " << failure.what;
    EXPECT_EQ(failure.ranks, std::vector{death.victim}) << failure.what;
    EXPECT_TRUE(failure.what.starts_with(name_of(death.algorithm.operation)) ||
                failure.what.starts_with("barrier: "))
        << failure.what;
  });
  return life.frames_sent();
}

void die_in_each_phase(const Death& death) {
  for (long frames = 0; die_after(death, frames) == frames; ++frames) {
    if (::testing::Test::HasFailure()) return;
  }
}

// Each of three ranks for a third of the algorithms; at night each of two to five for all. The
// thread sanitizer takes a minute for what takes a second.
void each_algorithm(const LocalWorldOptions& options) {
  const std::vector<int> worlds =
      test::is_nightly() && !kSanitized ? std::vector{2, 3, 4, 5} : std::vector{3};
  int turn = 0;
  for (const Algorithm& algorithm : built_in_algorithms()) {
    ++turn;
    if (!is_carried_by_programs(algorithm.operation)) continue;
    if (kSanitized && !test::is_nightly() && turn % 8 != 0) continue;
    for (const int ranks : worlds) {
      if (!algorithm.fits({.ranks = ranks})) continue;
      for (int victim = 0; victim < ranks; ++victim) {
        if (!test::is_nightly() && victim != turn % ranks) continue;
        // 1000: messages that go out before all have called; 30,000: long ones, by reference.
        for (const std::size_t each : {333U, 10'000U}) {
          die_in_each_phase({algorithm, options, ranks, victim,
                             each * static_cast<std::size_t>(ranks), turn % 2 == 0});
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(CommunicatorDeaths, InEachPhaseOfEachAlgorithmAreToldToAllOthersOverSharedMemory) {
  each_algorithm(kSharedFast);
}

TEST(CommunicatorDeaths, InEachPhaseOfEachAlgorithmAreToldToAllOthersOverTcp) {
  each_algorithm(kTcpFast);
}

TEST(CommunicatorDeaths, OfARankThatOthersMeetAtTheBoardAreToldToAll) {
  for (int ranks = 2; ranks <= 4; ++ranks) {
    for (int victim = 0; victim < ranks; ++victim) {
      Life life;
      run_ranks(ranks, test::with_mortal_rank(kShared, victim, life), [&](Job& job) {
        std::vector<float> values(10);
        const auto failure = failure_of([&] {
          for (int call = 0; job.rank() != victim || call < 10; ++call)
            job.world().all_reduce(buffer_of(values)).wait(Deadline::in(5s));
        });
        if (job.rank() == victim) return life.end(job);
        EXPECT_EQ(failure.fault, Fault::peer_lost) << failure.what;
        EXPECT_EQ(failure.ranks, std::vector{victim}) << failure.what;
      });
    }
  }
}

}  // namespace
}  // namespace paceline::collective::testing
