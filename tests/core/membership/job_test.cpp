#include "paceline/core/membership/job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "paceline/core/membership/job_impl.h"
#include "paceline/core/membership/local_world.h"
#include "paceline/core/membership/rendezvous.h"

namespace paceline {
namespace {

TEST(Job, WithoutAnEnvironmentItIsAWorldOfOne) {
  const Job job = init();
  EXPECT_EQ(job.rank(), 0);
  EXPECT_EQ(job.world_size(), 1);
  EXPECT_EQ(job.local_rank(), 0);
  EXPECT_EQ(job.local_world_size(), 1);
  EXPECT_EQ(job.node_rank(), 0);
  EXPECT_EQ(job.generation(), 1u);
  EXPECT_EQ(job.id(), "alone");
}

TEST(Job, AllocatedMemoryIsZeroedPageAlignedAndExactlyAsLongAsAskedFor) {
  Job job = init();
  for (const std::size_t bytes : {0u, 1u, 1000u, 1u << 20}) {
    const Allocation memory = job.allocate(bytes);
    EXPECT_EQ(memory.size(), bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % 4096, 0u);
    EXPECT_TRUE(std::ranges::all_of(memory.bytes(), [](std::byte b) { return b == std::byte{}; }));
  }
  EXPECT_EQ(Allocation().size(), 0u);
}

bool is_shared(Job& job, Bytes bytes) {
  bool found = false;
  job.impl().reactor->run([&] { found = job.impl().mesh->segments().find(bytes).has_value(); });
  return found;
}

TEST(Job, AllocatedMemoryOfARankThatIsAloneIsItsOwn) {
  Job job = init();
  const Allocation memory = job.allocate(4096);
  EXPECT_FALSE(is_shared(job, memory.bytes()));
  std::vector<Job> apart = make_local_world(2, {.share_memory = false});
  const Allocation of_one = apart[0].allocate(4096);
  EXPECT_FALSE(is_shared(apart[0], of_one.bytes()));
}

TEST(Job, AllocatedMemoryIsKnownToTheMeshAsLongAsItLives) {
  std::vector<Job> jobs = make_local_world(2);
  Job& job = jobs[0];
  const auto known = [&](Bytes bytes) { return is_shared(job, bytes); };
  Allocation one = job.allocate(4096), two = job.allocate(4096);
  const Bytes first = one.bytes(), second = two.bytes();
  EXPECT_TRUE(known(first));
  EXPECT_TRUE(known(second));
  {
    const Allocation taken = std::move(one);
    EXPECT_TRUE(known(first));
  }
  EXPECT_FALSE(known(first));
  two = Allocation();
  EXPECT_FALSE(known(second));
}

TEST(Job, ManyAllocationsComeAndGoFromManyThreads) {
  std::vector<Job> jobs = make_local_world(2);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&jobs, t] {
      for (int i = 0; i < 50; ++i) {
        const Allocation memory = jobs[static_cast<std::size_t>(t % 2)].allocate(4096);
        memory.data()[0] = std::byte{1};
      }
    });
  }
}

TEST(Job, AnAllocationMayOutliveItsJob) {
  Allocation memory;
  {
    Job job = init();
    memory = job.allocate(4096);
  }
  memory.data()[0] = std::byte{1};
}

TEST(Job, MemoryThatCannotBeHadIsAnErrorThatNamesTheLimit) {
  for (const int ranks : {1, 2}) {
    std::vector<Job> jobs = make_local_world(ranks);
    try {
      (void)jobs[0].allocate(std::size_t{1} << 60);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::io);
      EXPECT_NE(std::string(error.what()).find("memory: available memory"), std::string::npos);
    }
  }
}

TEST(Job, TwoJobsLiveInOneProcess) {
  Job one = init();
  const Job two = init();
  EXPECT_NE(one.impl().reactor, const_cast<Job&>(two).impl().reactor);
  Job moved = std::move(one);
  EXPECT_EQ(moved.world_size(), 1);
}

TEST(Job, AnEmptyWorldStartsAndEndsQuicklyAgainAndAgain) {
  for (int i = 0; i < 100; ++i) (void)init();
}

}  // namespace
}  // namespace paceline
