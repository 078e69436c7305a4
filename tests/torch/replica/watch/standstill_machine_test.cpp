// Ranks that wait for each other are found, and ranks that wait for a slow one are left alone.
#include "paceline/torch/replica/watch/standstill_machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/seed.h"

namespace paceline::replica {
namespace {

using machine::Message;
using machine::Send;

// Machines whose messages arrive at once.
struct Ranks {
  explicit Ranks(int count) {
    for (int rank = 0; rank < count; ++rank)
      machines.push_back(std::make_unique<StandstillMachine>(rank, count));
  }
  void hear(int to, int from, const Message& message) {
    for (const auto& action :
         machines[static_cast<std::size_t>(to)]->on_message(from, message, {})) {
      const Send& send = std::get<Send>(action);
      hear(send.to, to, send.message);
    }
  }
  void waits(int rank, const WaitingPlace& place) {
    hear(rank, rank, StandstillMachine::waits(place));
  }
  int told() const {
    int count = 0;
    for (const auto& one : machines) count += one->verdict().has_value();
    return count;
  }
  std::vector<std::unique_ptr<StandstillMachine>> machines;
};

TEST(StandstillMachine, TwoRanksThatWaitInDifferentCallsAreToldToAll) {
  Ranks ranks(3);
  ranks.waits(0, {.lane = 0, .call = 4, .calls = {4, 1}, .where = "for a gather"});
  EXPECT_EQ(ranks.told(), 0);
  ranks.waits(1, {.lane = 1, .call = 2, .calls = {3, 2}, .where = "at the end of its step"});
  ASSERT_EQ(ranks.told(), 3) << "the third one computes, and is told too";
  for (const auto& one : ranks.machines) {
    const Failure failure = *one->verdict();
    EXPECT_EQ(failure.fault, Fault::mismatch);
    EXPECT_EQ(failure.what, "rank 0 waits for a gather, rank 1 waits at the end of its step");
  }
}

TEST(StandstillMachine, ARingOfRanksIsFound) {
  Ranks ranks(3);  // each has made the call that the one before it waits for
  ranks.waits(0, {.lane = 0, .call = 1, .calls = {1, 0, 1}, .where = "a"});
  ranks.waits(1, {.lane = 1, .call = 1, .calls = {0, 1, 1}, .where = "b"});
  EXPECT_EQ(ranks.told(), 3) << "rank 0 has not made what rank 1 waits for";
  Ranks ring(3);
  ring.waits(0, {.lane = 0, .call = 1, .calls = {1, 0, 1}, .where = "a"});
  ring.waits(1, {.lane = 1, .call = 1, .calls = {1, 1, 0}, .where = "b"});
  EXPECT_EQ(ring.told(), 0) << "rank 2 may make both";
  ring.waits(2, {.lane = 2, .call = 1, .calls = {0, 1, 1}, .where = "c"});
  EXPECT_EQ(ring.told(), 3);
}

TEST(StandstillMachine, RanksThatWaitForOneThatComputesAreLeftAlone) {
  Ranks ranks(3);
  ranks.waits(0, {.lane = 0, .call = 4, .calls = {4, 1}, .where = "a"});
  ranks.waits(1, {.lane = 0, .call = 4, .calls = {4, 1}, .where = "a"});
  ranks.waits(0, {.lane = 1, .call = 2, .calls = {4, 2}, .where = "b"});
  EXPECT_EQ(ranks.told(), 0);
}

// Ranks run the same calls at their own pace, tell each wait, and messages come late.
TEST(StandstillMachine, RanksThatDoTheSameAreNeverTold) {
  std::mt19937_64 random(test::seed(4001));
  const auto below = [&](std::size_t limit) { return random() % limit; };
  for (int round = 0; round < 200; ++round) {
    constexpr std::size_t kRanks = 3, kLanes = 3;
    // The lane of each call, and whether it is waited for.
    std::vector<std::pair<std::uint32_t, bool>> program;
    for (int call = 0; call < 30; ++call)
      program.emplace_back(static_cast<std::uint32_t>(below(kLanes)), below(2) == 0);
    std::vector<std::size_t> at(kRanks, 0);
    std::vector<std::vector<std::int64_t>> calls(kRanks, std::vector<std::int64_t>(kLanes, 0));
    std::vector<char> is_waiting(kRanks, 0);
    Ranks ranks(kRanks);
    std::map<std::pair<int, int>, std::vector<Message>> under_way;  // from, to
    const auto deliver = [&](int from, int to, const Message& message) {
      for (const auto& action :
           ranks.machines[static_cast<std::size_t>(to)]->on_message(from, message, {})) {
        const Send& send = std::get<Send>(action);
        under_way[{to, send.to}].push_back(send.message);
      }
    };
    for (int turn = 0; turn < 600; ++turn) {
      const std::size_t rank = below(kRanks);
      if (below(2) == 0 && !under_way.empty()) {
        auto& [pair, messages] =
            *std::next(under_way.begin(), static_cast<std::ptrdiff_t>(below(under_way.size())));
        if (messages.empty()) continue;
        const Message first = messages.front();
        messages.erase(messages.begin());
        deliver(pair.first, pair.second, first);
        continue;
      }
      if (at[rank] == program.size()) continue;
      const std::uint32_t lane = program[at[rank]].first;
      const bool waits = program[at[rank]].second;
      if (!is_waiting[rank]) ++calls[rank][lane];
      const std::int64_t call = calls[rank][lane];
      const bool is_over =
          std::ranges::all_of(calls, [&](const auto& of) { return of[lane] >= call; });
      if (!waits || is_over) {
        is_waiting[rank] = 0;
        ++at[rank];
      } else if (!std::exchange(is_waiting[rank], 1)) {
        deliver(static_cast<int>(rank), static_cast<int>(rank),
                StandstillMachine::waits({lane, call, calls[rank], "somewhere"}));
      }
    }
    ASSERT_EQ(ranks.told(), 0) << "round " << round;
  }
}

}  // namespace
}  // namespace paceline::replica
