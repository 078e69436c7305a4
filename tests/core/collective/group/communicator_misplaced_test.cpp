// Calls from places where nothing can carry them out: they refuse before anything is submitted, and
// the group goes on. Covers paceline/core/collective/group/communicator.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <memory>

#include "paceline/core/collective/group/machine_links.h"
#include "paceline/core/collective/group/values.h"
#include "tests/core/collective/worlds.h"
#include "tests/support/misuse.h"

namespace paceline::collective::testing {
namespace {

using test::misuse_of;
using ::testing::HasSubstr;

// Runs `body` inside a callback of an operation of two ranks, on rank 0; the other one then sums.
void run_in_callback(const LocalWorldOptions& options,
                     const std::function<void(Communicator&)>& body) {
  std::atomic<bool> in_place = false;
  run_ranks(2, options, [&](Job& job) {
    Communicator& world = job.world();
    while (job.rank() == 1 && !in_place) std::this_thread::yield();
    std::atomic<bool> has_run = job.rank() == 1;
    const Work barrier = world.barrier();
    if (job.rank() == 0) {
      barrier.on_done([&](const Result<>&) {
        body(world);
        has_run = true;
      });
    }
    in_place = true;
    barrier.wait();
    while (!has_run) std::this_thread::yield();
    EXPECT_EQ(world.all_reduce(job.rank() + 1.0), 3) << "the group goes on";
  });
}

TEST(CommunicatorMisplaced, CallsThatWaitRefuseInsideACallbackBeforeTheySubmit) {
  const std::array<int, 2> both = {0, 1};
  const std::vector<std::pair<const char*, std::function<void(Communicator&)>>> calls = {
      {"all_reduce of one number", [](Communicator& world) { world.all_reduce(1.0); }},
      {"split", [](Communicator& world) { world.split(0); }},
      {"subgroup", [&](Communicator& world) { world.subgroup(both); }},
      {"a machine among ranks", [](Communicator& world) { world.machine_links(); }},
      {"all_gather_bytes", [](Communicator& world) { all_gather_bytes(world, "a"); }},
      {"gather_bytes", [](Communicator& world) { gather_bytes(world, "a"); }},
      {"broadcast_bytes", [](Communicator& world) { broadcast_bytes(world, "a"); }},
  };
  for (const auto& options : {kShared, kTcp}) {
    for (const auto& [name, call] : calls) {
      SCOPED_TRACE(name);
      std::string refusal;
      run_in_callback(options,
                      [&](Communicator& world) { refusal = misuse_of([&] { call(world); }); });
      EXPECT_THAT(refusal, HasSubstr(std::string(name) + " inside a callback"));
    }
  }
}

// Operations in flight end with the Job; rank 1 stays until rank 0 has seen that.
TEST(CommunicatorMisplaced, AGroupThatOutlivesItsJobRefusesItsCalls) {
  for (const auto& options : {kShared, kTcp}) {
    std::atomic<bool> ended = false;
    run_ranks(2, options, [&](Job& job) {
      const int peer = 1 - job.rank();
      const auto group = job.world().split(0);
      std::vector<float> values(100, 1);
      const Work called = peer == 1 ? group->recv(buffer_of(values), 1) : Work();
      while (peer == 0 && !ended) std::this_thread::yield();
      { const Job over = std::move(job); }
      const std::vector<std::function<void()>> calls = {
          [&] { called.wait(Deadline::in(5s)); },
          [&] { (void)group->all_reduce(buffer_of(values)); },
          [&] { (void)group->send(buffer_of(values), peer); },
          [&] { group->split(0); },
      };
      for (const auto& call : std::span(calls).subspan(peer == 1 ? 0 : 1))
        EXPECT_THAT(failure_of(call).what,
                    HasSubstr("has ended its Job, which must outlive the groups"));
      ended = true;
    });
  }
}

// The exit code of a child by fork() that runs `body`; -1: it did not end.
int code_of_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  const Deadline deadline = Deadline::in(5s);
  while (::waitpid(child, &status, WNOHANG) == 0) {
    std::this_thread::yield();
    if (!deadline.passed()) continue;
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(CommunicatorMisplaced, AForkedChildIsRefusedAndEndsItsCopiesWithoutItsParents) {
  auto job = std::make_unique<Job>(std::move(make_local_world(1).front()));
  Communicator& world = job->world();
  auto group = world.split(0);
  EXPECT_EQ(group->all_reduce(1.0), 1);
  const auto is_refused = [](const std::function<void()>& call) {
    return failure_of(call).what.find("is a child by fork()") != std::string::npos;
  };
  const int code = code_of_child([&] {
    if (!is_refused([&] { world.all_reduce(1.0); })) return 1;
    if (!is_refused([&] { (void)world.barrier(); })) return 2;
    if (!is_refused([&] { group->split(0); })) return 3;
    group->abort("this child does not know better");
    group->unwind();
    group.reset();
    job.reset();
    return 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(group->all_reduce(1.0), 1) << "the parent goes on";
}

}  // namespace
}  // namespace paceline::collective::testing
