// Calls from places where nothing can carry them out: they refuse before anything is submitted, and
// the group goes on. Covers paceline/core/collective/group/communicator.h.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <optional>

#include "paceline/core/collective/group/machine_port.h"
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

class Idle final : public machine::Machine {
 public:
  machine::Actions on_message(int, const machine::Message&, machine::Time) override { return {}; }
  machine::Actions on_timer(std::uint32_t, machine::Time) override { return {}; }
  machine::Actions on_lost(int, machine::Time) override { return {}; }
};

TEST(CommunicatorMisplaced, CallsThatWaitRefuseInsideACallbackBeforeTheySubmit) {
  Idle idle;
  const std::array<int, 2> both = {0, 1};
  const std::vector<std::pair<const char*, std::function<void(Communicator&)>>> calls = {
      {"all_reduce of one number", [](Communicator& world) { world.all_reduce(1.0); }},
      {"split", [](Communicator& world) { world.split(0); }},
      {"subgroup", [&](Communicator& world) { world.subgroup(both); }},
      {"attach", [&](Communicator& world) { world.attach(idle); }},
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

}  // namespace
}  // namespace paceline::collective::testing
