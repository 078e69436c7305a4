#include "paceline/core/job/local_world.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "paceline/core/job/job_impl.h"
#include "paceline/core/transport/frame/wire.h"

namespace paceline {
namespace {

using namespace std::chrono_literals;
using transport::FrameHeader;
using transport::FrameType;

// Counts frames, departures and failures of the generation.
class Counter final : public membership::FrameSink {
 public:
  explicit Counter(transport::Reactor& reactor) : reactor_(reactor) {}
  std::atomic<int> frames = 0, departures = 0, failures = 0;
  MutableBytes place(int, const FrameHeader&) override { return {}; }
  Result<> received(int, const FrameHeader&, Bytes, bool) override { return noted(frames); }
  Result<> borrowed(int, const FrameHeader&, Bytes) override { return noted(frames); }
  void failed(const Failure&) override { (void)noted(failures); }
  void departed(int) override { (void)noted(departures); }
  std::string pending_call_of(int) const override { return {}; }

 private:
  Result<> noted(std::atomic<int>& count) {
    ++count;
    reactor_.note_completion();
    return Done{};
  }
  transport::Reactor& reactor_;
};

class LocalWorld : public testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Over, LocalWorld, testing::Bool(),
                         [](const auto& p) { return p.param ? "memory" : "tcp"; });

TEST_P(LocalWorld, EveryRankReachesEveryOtherAndHearsItLeave) {
  constexpr int kRanks = 5;
  std::vector<Job> jobs = make_local_world(kRanks, {.share_memory = GetParam()});
  ASSERT_EQ(jobs.size(), std::size_t{kRanks});
  std::vector<std::jthread> threads;
  for (Job& job : jobs) {
    threads.emplace_back([own = std::move(job)]() mutable {
      Job ours = std::move(own);
      auto& reactor = *ours.impl().reactor;
      auto& generation = *ours.impl().generation;
      Counter counter(reactor);
      EXPECT_EQ(generation.shares_memory(), GetParam());
      reactor.run([&] {
        generation.subscribe(1, &counter);
        for (int peer = 0; peer < kRanks; ++peer) {
          if (peer != ours.rank())
            generation.link(peer)->send({.type = FrameType::data, .group = 1}, bytes_of(peer));
        }
      });
      EXPECT_TRUE(
          reactor.drive_until([&] { return counter.frames == kRanks - 1; }, Deadline::in(20s)));
      // The ranks leave one after the other, from the last on.
      EXPECT_TRUE(reactor.drive_until(
          [&] { return counter.departures >= kRanks - 1 - ours.rank(); }, Deadline::in(20s)));
      EXPECT_EQ(counter.failures, 0);
      reactor.run([&] { generation.subscribe(1, nullptr); });
    });
  }
}

TEST_P(LocalWorld, AFailureOfOneIsHeardByAll) {
  std::vector<Job> jobs = make_local_world(3, {.share_memory = GetParam()});
  const Failure why{Fault::mismatch, "the ranks do not do the same", {0, 1}};
  jobs[2].impl().reactor->run([&] { jobs[2].impl().generation->fail(why); });
  for (Job& job : jobs) {
    membership::Generation& generation = *job.impl().generation;
    EXPECT_TRUE(job.impl().reactor->drive_until([&] { return generation.failure().has_value(); },
                                                Deadline::in(20s)));
    EXPECT_EQ(generation.failure(), why);
  }
}

// Goodbyes must be out before the links end, whichever thread drives at that moment.
TEST_P(LocalWorld, AJobThatEndsAtOnceHasLeftAndIsNotLost) {
  for (int round = 0; round < 100; ++round) {
    std::vector<Job> jobs = make_local_world(2, {.share_memory = GetParam()});
    jobs.pop_back();
    auto& reactor = *jobs[0].impl().reactor;
    membership::Generation& generation = *jobs[0].impl().generation;
    std::atomic<bool> left = false;
    EXPECT_TRUE(reactor.drive_until(
        [&] {
          if (reactor.driven_by_this_thread()) left = generation.has_departed(1);
          return left.load();
        },
        Deadline::in(20s)));
    EXPECT_FALSE(generation.failure()) << generation.failure()->what;
  }
}

TEST(LocalWorldTest, TwoWorldsDoNotMix) {
  std::vector<Job> one = make_local_world(2), other = make_local_world(2);
  one[0].impl().reactor->run([&] { one[0].impl().generation->fail({Fault::io, "first", {}}); });
  EXPECT_TRUE(one[1].impl().reactor->drive_until(
      [&] { return one[1].impl().generation->failure().has_value(); }, Deadline::in(20s)));
  for (Job& job : other) EXPECT_FALSE(job.impl().generation->failure());
}

TEST(LocalWorldTest, AWorldNeedsARank) {
  EXPECT_THROW(make_local_world(0), Error);
  EXPECT_EQ(make_local_world(1).at(0).world_size(), 1);
}

TEST(LocalWorldTest, EachLinkGoesThroughWhatIsAskedFor) {
  for (const bool share_memory : {true, false}) {
    std::multiset<std::pair<int, int>> seen;
    const auto jobs = make_local_world(
        3, {.share_memory = share_memory,
            .through = [&](int rank, int peer, std::unique_ptr<transport::Link> link) {
              EXPECT_EQ(link->peer(), peer);
              seen.emplace(rank, peer);
              return link;
            }});
    EXPECT_EQ(seen,
              (std::multiset<std::pair<int, int>>{{0, 1}, {0, 2}, {1, 0}, {1, 2}, {2, 0}, {2, 1}}));
  }
}

}  // namespace
}  // namespace paceline
