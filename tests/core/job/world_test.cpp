// Job::world() makes the group of all ranks once.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "paceline/core/job/job_impl.h"
#include "tests/core/collective/worlds.h"

namespace paceline::collective::testing {
namespace {

TEST(World, IsOneGroupForTheLifeOfTheJob) {
  for (const bool reproducible : {true, false}) {
    run_ranks(3, {.reproducible = reproducible}, [reproducible](Job& job) {
      Communicator& world = job.world();
      EXPECT_EQ(&job.world(), &world);
      EXPECT_EQ(world.name(), "world");
      EXPECT_EQ(world.rank(), job.rank());
      EXPECT_EQ(world.size(), 3);
      EXPECT_EQ(world.determinism(), reproducible ? Determinism::reproducible : Determinism::fast);
      world.barrier().wait();
    });
  }
}

TEST(World, AProfileThatIsNoneIsToldWhereItIsFirstUsed) {
  membership::Environment alone;
  auto impl = std::make_unique<Job::Impl>(alone, transport::ReactorOptions{});
  impl->profile = R"({"paceline_profile": 7})";
  Job job(std::move(impl));
  const Failure failure = failure_of([&] { job.world(); });
  EXPECT_EQ(failure.fault, Fault::misuse);
  EXPECT_EQ(
      failure.what,
      "profile of rank 0 (PACELINE_PROFILE): paceline_profile must be 1; write it again with: "
      "paceline bench calibrate --output FILE");
}

TEST(World, TheJobsTimeoutIsItsOperations) {
  std::atomic<bool> failed = false;
  run_ranks(2, {.operation_timeout = 50ms}, [&failed](Job& job) {
    if (job.rank() == 1) {
      while (!failed) std::this_thread::yield();
      return;
    }
    EXPECT_EQ(failure_of([&] { job.world().barrier().wait(Deadline::in(5s)); }).fault,
              Fault::timed_out);
    failed = true;
  });
}

TEST(World, ARankThatMakesItLateFindsWhatCameBefore) {
  for (const auto& options : {kShared, kTcp}) {
    std::vector<Job> jobs = make_local_world(2, options);
    std::vector<float> early(5, 1), late(5, 2), told(5, 4);
    const Work first = jobs[0].world().all_reduce(buffer_of(early));  // rank 1 has no world yet
    const Work message = jobs[0].world().send(const_buffer_of(told), 1);
    EXPECT_FALSE(first.done());
    std::vector<float> in(5);
    const Work second = jobs[1].world().all_reduce(buffer_of(late));
    second.wait(Deadline::in(5s));
    first.wait(Deadline::in(5s));
    message.wait();
    jobs[1].world().recv(buffer_of(in), 0).wait(Deadline::in(5s));
    EXPECT_EQ(early, std::vector<float>(5, 3));
    EXPECT_EQ(in, told);
  }
}

}  // namespace
}  // namespace paceline::collective::testing
