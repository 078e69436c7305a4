#include "paceline/core/coordination/pause_machine.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "paceline/core/base/seed.h"
#include "paceline/core/machine/virtual_network.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::coordination {
namespace {

using namespace std::chrono_literals;
using machine::Actions;
using machine::Message;
using machine::Time;

// Makes steps of random length, sometimes asks for a pause, and waits for pauses after each stretch
// of steps. Each pause and each such wait is an operation that all ranks make: `meetings` lists
// them in its order.
class SteppingRank final : public machine::Machine {
 public:
  SteppingRank(int rank, int ranks, std::vector<int> stretches, std::uint64_t seed)
      : pauses(rank, ranks), rank_(rank), stretches_(std::move(stretches)), numbers_(seed) {}

  Actions on_message(int from, const Message& message, Time now) override {
    if (from < 0) return go_on(now);
    Actions actions = pauses.on_message(from, message, now);
    append(actions, go_on(now));
    return actions;
  }
  Actions on_timer(std::uint32_t, Time now) override {
    is_stepping_ = false;
    ++steps;
    ++steps_in_stretch_;
    Actions actions;
    if (numbers_.below(8) == 0) {
      const std::uint32_t reason = 1u << numbers_.below(3);
      asked |= reason;
      asks_ = true;
      append(actions, pauses.on_message(rank_, PauseMachine::ask(reason), now));
    }
    append(actions, go_on(now));
    return actions;
  }
  Actions on_lost(int peer, Time now) override { return pauses.on_lost(peer, now); }

  bool is_done() const { return stretch_ == stretches_.size(); }

  PauseMachine pauses;
  std::int64_t steps = 0;
  std::uint32_t asked = 0, heard = 0;
  struct Meeting {
    bool is_pause = false;
    Pause pause = {};
    bool operator==(const Meeting&) const = default;
  };
  std::vector<Meeting> meetings;
  std::vector<std::int64_t> steps_at_pauses;

 private:
  // This is what a training thread does between the calls that block.
  Actions go_on(Time now) {
    Actions actions;
    for (bool moved = true; std::exchange(moved, false) && !is_stepping_ && !is_done();) {
      if (stands_) {
        if (!pauses.has_paused()) break;
        stands_ = false;
        meetings.push_back({true, pauses.take()});
        heard |= meetings.back().pause.reasons;
        steps_at_pauses.push_back(steps);
        moved = true;
      } else if (waits_ && pauses.is_wait_over()) {
        waits_ = asks_ = false;
        meetings.push_back({});
        ++stretch_;
        steps_in_stretch_ = 0;
        moved = true;
      } else if (pauses.is_called()) {
        asks_ = false;
        stands_ = moved = true;
        append(actions, pauses.on_message(rank_, pauses.come(steps), now));
      } else if (asks_) {
        break;  // until it is called
      } else if (steps_in_stretch_ < stretches_[stretch_]) {
        is_stepping_ = true;
        const Time length(static_cast<Time::rep>(numbers_.unit() * 1e6));
        actions.push_back(machine::Arm{0, now + length});
      } else if (!std::exchange(waits_, true)) {
        append(actions, pauses.on_message(rank_, pauses.wait_for_pause(), now));
        moved = true;
      }
    }
    return actions;
  }

  const int rank_;
  const std::vector<int> stretches_;
  SeededNumbers numbers_;
  std::size_t stretch_ = 0;
  int steps_in_stretch_ = 0;
  bool is_stepping_ = false, stands_ = false, waits_ = false, asks_ = false;
};

TEST(PauseMachine, AllRanksMakeTheSamePausesAndWaitsInOneOrderAndNobodyWaitsForEver) {
  const int seeds = test::is_nightly() ? 10000 : test::is_brief() ? 100 : 1000;
  for (int number = 0; number < seeds; ++number) {
    SeededNumbers numbers(test::seed(2540000 + static_cast<std::uint64_t>(number)));
    const int ranks = 1 + static_cast<int>(numbers.below(6));
    machine::VirtualNetwork network(numbers.next(), {.least_delay = 10us, .most_delay = 2ms});
    std::vector<std::unique_ptr<SteppingRank>> members;
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<int> stretches(3);
      for (int& steps : stretches) steps = static_cast<int>(numbers.below(15));
      members.push_back(
          std::make_unique<SteppingRank>(rank, ranks, stretches, mix(numbers.next(), 1)));
      network.add(rank, *members.back());
      network.tell(rank, -1, {});
    }
    network.run();
    std::uint32_t asked = 0;
    std::map<std::size_t, std::int64_t> furthest;
    for (const auto& member : members) {
      ASSERT_TRUE(member->is_done()) << "seed " << number;
      ASSERT_EQ(member->meetings, members[0]->meetings) << "seed " << number;
      asked |= member->asked;
      for (std::size_t i = 0; i < member->steps_at_pauses.size(); ++i)
        furthest[i] = std::max(furthest[i], member->steps_at_pauses[i]);
    }
    ASSERT_EQ(members[0]->heard, asked) << "no ask is lost; seed " << number;
    std::size_t pauses = 0;
    for (const auto& meeting : members[0]->meetings) {
      if (!meeting.is_pause) continue;
      ASSERT_EQ(meeting.pause.step, furthest[pauses++]) << "seed " << number;
    }
  }
}

// Messages of one rank to itself, as a world of one has them.
void settle(PauseMachine& machine, const Message& told) {
  Actions actions = machine.on_message(0, told, {});
  for (std::size_t i = 0; i < actions.size(); ++i)
    for (const auto& more : machine.on_message(0, std::get<machine::Send>(actions[i]).message, {}))
      actions.push_back(more);
}

TEST(PauseMachine, ARankAlonePausesAndWaitsAtOnce) {
  PauseMachine machine(0, 1);
  settle(machine, PauseMachine::ask(2));
  ASSERT_TRUE(machine.is_called());
  settle(machine, machine.come(7));
  ASSERT_TRUE(machine.has_paused());
  EXPECT_EQ(machine.take(), (Pause{2, 7}));
  EXPECT_FALSE(machine.has_paused()) << "it was taken";
  settle(machine, machine.wait_for_pause());
  EXPECT_TRUE(machine.is_wait_over());
}

TEST(PauseMachine, TellsOfARankThatEndsOnlyIfOthersWaitForIt) {
  PauseMachine machine(0, 3);
  EXPECT_TRUE(machine.on_lost(2, {}).empty());
  EXPECT_EQ(machine.missing(), std::nullopt);
  settle(machine, machine.wait_for_pause());
  EXPECT_EQ(machine.missing(), 2);
  PauseMachine other(1, 3);
  std::ignore = other.on_lost(2, {});
  EXPECT_EQ(other.missing(), std::nullopt) << "rank 0 judges";
  std::ignore = other.on_message(0, {.kind = PauseMachine::kMissing, .index = 2}, {});
  EXPECT_EQ(other.missing(), 2);
}

}  // namespace
}  // namespace paceline::coordination
