#include "paceline/core/job/job.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "paceline/core/job/job_impl.h"
#include "paceline/core/job/joining.h"
#include "paceline/core/job/local_world.h"

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
