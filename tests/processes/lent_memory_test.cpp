// A rank that was stopped in the middle of a call goes on when the call has failed on the other
// one: it neither uses data that it reads there, nor writes to memory that was lent (covers
// paceline/core/collective/group/group.h and paceline/core/transport/link/link.h between
// processes).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "tests/support/launched.h"
#include "tests/support/nightly.h"

namespace paceline::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Lending {
  std::size_t bytes;
  std::string memory, algorithm, place;
  std::size_t offset;  // of the buffers from the begin of a page
};

std::string label(const Lending& l) {
  return fmt::format("lender {} {} {} {} {}", l.bytes, l.memory, l.algorithm, l.place, l.offset);
}

// One of the 192 combinations. The step has no divisor with their number in common, so that all
// have their turn.
Lending lending_of(int round) {
  const std::vector<std::size_t> sizes = {4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};
  const std::vector<std::string> algorithms = {"board", "direct", "board", "ring"};
  auto rest = static_cast<std::size_t>(round + 1) * 77;
  const auto next = [&rest](std::size_t count) {
    const std::size_t chosen = rest % count;
    rest /= count;
    return chosen;
  };
  const std::size_t bytes = sizes[next(sizes.size())];
  const bool allocated = next(2) == 0;
  const std::string& algorithm = algorithms[next(algorithms.size())];
  const bool in_place = next(2) == 0;
  const bool on_a_page = next(2) == 0;
  return {bytes, allocated ? "allocated" : "ordinary", algorithm, in_place ? "in_place" : "apart",
          on_a_page ? std::size_t{0} : std::size_t{64}};
}

void stop_and_go_on(const Lending& lending, std::chrono::microseconds after) {
  auto worker = paceline_run({"-n", "2", "--grace", "20"},
                             {binary("lender"), std::to_string(lending.bytes), lending.memory,
                              lending.algorithm, lending.place, std::to_string(lending.offset)});
  worker.environment["PACELINE_TRANSPORT"] = "shm";
  Process launcher(worker);
  const auto pids = ready(launcher, 2);
  ASSERT_EQ(pids.size(), 2U) << launcher.output() << launcher.error();
  std::this_thread::sleep_for(after);  // so that it is stopped anywhere
  ::kill(pids[1], SIGSTOP);
  EXPECT_TRUE(launcher.wait_for_output("[0] released", Deadline::in(10s))) << launcher.error();
  ::kill(pids[1], SIGCONT);
  EXPECT_TRUE(launcher.wait_for_output("[1] failed ", Deadline::in(5s)))
      << "it hangs, or reports success for ever: " << launcher.output() << launcher.error();
  ::kill(pids[0], SIGUSR1);
  EXPECT_TRUE(launcher.wait_for_output("[0] failed ", Deadline::in(5s))) << launcher.error();
  EXPECT_THAT(launcher.output(), HasSubstr("[0] kept"));
  EXPECT_THAT(launcher.output(), Not(HasSubstr("overwritten")));
  EXPECT_THAT(launcher.output(), Not(HasSubstr("lied")));
  EXPECT_EQ(exit_code(launcher.wait(Deadline::in(5s))), 1) << launcher.error();
}

TEST(LentMemory, OfAFailedCallIsNeitherReadForDataNorWritten) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  for (int round = 0; round < (is_nightly() ? 200 : 24); ++round) {
    const Lending lending = lending_of(round);
    const std::chrono::microseconds after(random() % 30'000);
    SCOPED_TRACE(
        fmt::format("{}, stopped after {} us, seed {}", label(lending), after.count(), seed));
    ASSERT_NO_FATAL_FAILURE(stop_and_go_on(lending, after));
  }
}

}  // namespace
}  // namespace paceline::test
