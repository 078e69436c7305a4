// Also covers paceline/core/collective/group/machine_links.h and
// paceline/core/collective/group/group_number.h.
#include "paceline/core/coordination/machine_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>

#include "paceline/core/base/seed.h"
#include "tests/core/collective/worlds.h"
#include "tests/support/mortal_link.h"
#include "tests/support/nightly.h"

namespace paceline::coordination::testing {
namespace {

using collective::testing::kShared;
using collective::testing::kTcp;
using test::run_ranks;
using namespace std::chrono_literals;
using machine::Actions;
using machine::Message;
using machine::Send;
using machine::Time;
using ::testing::HasSubstr;

// Sends what it is told (kind 1) to the rank in `index`; that one answers with the same (kind 2).
class EchoOfRun final : public machine::Machine {
 public:
  explicit EchoOfRun(int rank) : rank_(rank) {}
  Actions on_message(int from, const Message& message, Time) override {
    if (message.kind == 1 && from == rank_)
      return {Send{static_cast<int>(message.index), {.kind = 3, .payload = message.payload}}};
    if (message.kind == 3)
      return {Send{from, {.kind = 2, .index = message.index, .payload = message.payload}}};
    from_ = from;
    answer = message.payload;
    ++answers;
    return {};
  }
  Actions on_timer(std::uint32_t, Time) override { return {}; }
  Actions on_lost(int peer, Time) override {
    lost |= 1U << static_cast<unsigned>(peer);
    return {};
  }
  std::atomic<int> answers = 0;
  std::atomic<unsigned> lost = 0;
  std::vector<std::byte> answer;  // read it when `answers` has grown
  int from_ = -1;

 private:
  const int rank_;
};

std::vector<std::byte> noise(std::size_t bytes, std::uint64_t seed) {
  SeededNumbers numbers(seed);
  std::vector<std::byte> all(bytes);
  for (std::byte& one : all) one = static_cast<std::byte>(numbers.next());
  return all;
}

void expect_echo(MachineRun& run, EchoOfRun& echo, int from, std::size_t bytes) {
  const auto sent = noise(bytes, bytes);
  const int before = echo.answers;
  run.tell({.kind = 1, .index = static_cast<std::uint32_t>(from), .payload = sent});
  run.wait_within(
      "an echo", [&] { return echo.answers > before; }, 20s);
  EXPECT_TRUE(echo.answer == sent) << bytes << " bytes";
  EXPECT_EQ(echo.from_, from);
}

TEST(MachineRun, MessagesOfAnyLengthReachThePeerWhole) {
  constexpr std::size_t kFrame = std::size_t{4} << 20;
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(2, options, [](Job& job) {
      EchoOfRun echo(job.rank());
      MachineRun run(job.world(), echo);
      for (const std::size_t bytes :
           {std::size_t{0}, std::size_t{1}, kFrame - 1, kFrame, kFrame + 1, 3 * kFrame + 5}) {
        if (test::is_brief() && bytes > kFrame) continue;
        expect_echo(run, echo, 1 - job.rank(), bytes);
      }
      job.world().barrier().wait();
    });
  }
}

TEST(MachineRun, PeersAreTheRanksOfTheGroupAlsoThisOne) {
  run_ranks(4, [](Job& job) {
    const auto pair = job.world().split(job.rank() % 2, -job.rank());
    EchoOfRun in_pair(pair->rank()), in_world(job.rank());
    MachineRun run(*pair, in_pair);
    MachineRun other(job.world(), in_world);
    for (const int peer : {0, 1}) expect_echo(run, in_pair, peer, 1000);
    for (const int peer : {0, 1, 2, 3}) expect_echo(other, in_world, peer, 10);
    EXPECT_EQ(job.world().all_reduce(1.0), 4.0) << "operations go on beside machines";
    job.world().barrier().wait();
  });
}

TEST(MachineRun, AfterItsEndTheOthersHearThatThisRankIsLostAndWhatTheySendIsThrownAway) {
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(3, options, [](Job& job) {
      EchoOfRun echo(job.rank());
      auto run = std::make_unique<MachineRun>(job.world(), echo);
      if (job.rank() == 2) {
        run.reset();
      } else {
        for (int i = 0; i < 20; ++i)
          run->tell({.kind = 1, .index = 2, .payload = noise(1 << 20, 1)});
        run->wait_within(
            "the loss", [&] { return echo.lost == 4U; }, 20s);
        expect_echo(*run, echo, 1 - job.rank(), 100);
      }
      EXPECT_EQ(job.world().all_reduce(1.0), 3.0);
      const MachineRun again(job.world(), echo);
      job.world().barrier().wait();
    });
  }
}

TEST(MachineRun, TheLossOfARankFailsThoseWhoWait) {
  test::Life life;
  std::latch all_are_ready(3);
  run_ranks(3, test::with_mortal_rank(kTcp, 2, life), [&](Job& job) {
    EchoOfRun echo(job.rank());
    MachineRun run(job.world(), echo);
    all_are_ready.arrive_and_wait();
    if (job.rank() == 2) return life.end(job);
    try {
      run.wait_within(
          "what never comes", [] { return false; }, 20s);
      ADD_FAILURE() << "it ended";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::peer_lost) << error.what();
    }
  });
}

// The answer of one whom it does not await, for example, comes just after the wait has begun.
TEST(MachineRun, AWaitAsksAfterTheStallTimeWithoutMovement) {
  constexpr auto kStall = 1000ms;
  run_ranks(1, {.stall_time = kStall}, [&](Job& job) {
    EchoOfRun echo(0);
    MachineRun run(job.world(), echo);
    const auto begin = Clock::now(), last = begin + kStall / 5;
    std::atomic<bool> has_asked = false;
    run.wait("rain", [&] { return has_asked.load(); },
             {.ask = [&] { has_asked = true; },
              .awaited = [] { return Awaited(); },
              .movement = [&] { return std::uint64_t{Clock::now() < last ? 0U : 1U}; }});
    EXPECT_GE(Clock::now(), last + kStall);
    EXPECT_LT(Clock::now(), begin + 2 * kStall);
  });
}

TEST(MachineRun, AWaitThatLastsTooLongNamesWhatItWaitedFor) {
  run_ranks(1, [](Job& job) {
    EchoOfRun echo(0);
    MachineRun run(job.world(), echo);
    try {
      run.wait_within(
          "rain", [] { return false; }, 1ms);
      ADD_FAILURE() << "it ended";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::timed_out);
      EXPECT_THAT(error.what(), HasSubstr("waited 1 ms for rain"));
    }
  });
}

}  // namespace
}  // namespace paceline::coordination::testing
