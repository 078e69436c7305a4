#include "paceline/core/coordination/halt_machine.h"

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

// Makes steps of random length, sometimes asks for a halt, and rests after each stretch of steps.
// Each halt and each rest is an operation that all ranks make: `meetings` lists them in its order.
class SteppingRank final : public machine::Machine {
 public:
  SteppingRank(int rank, int ranks, std::vector<int> stretches, std::uint64_t seed)
      : halts(rank, ranks), rank_(rank), stretches_(std::move(stretches)), numbers_(seed) {}

  Actions on_message(int from, const Message& message, Time now) override {
    if (from < 0) return go_on(now);
    Actions actions = halts.on_message(from, message, now);
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
      append(actions, halts.on_message(rank_, HaltMachine::ask(reason), now));
    }
    append(actions, go_on(now));
    return actions;
  }
  Actions on_lost(int peer, Time now) override { return halts.on_lost(peer, now); }

  bool is_done() const { return stretch_ == stretches_.size(); }

  HaltMachine halts;
  std::int64_t steps = 0;
  std::uint32_t asked = 0, heard = 0;
  struct Meeting {
    bool is_halt = false;
    Halt halt = {};
    bool operator==(const Meeting&) const = default;
  };
  std::vector<Meeting> meetings;
  std::vector<std::int64_t> steps_at_halts;

 private:
  static void append(Actions& actions, Actions more) {
    actions.insert(actions.end(), more.begin(), more.end());
  }

  // This is what a training thread does between the calls that block.
  Actions go_on(Time now) {
    Actions actions;
    for (bool moved = true; std::exchange(moved, false) && !is_stepping_ && !is_done();) {
      if (stands_) {
        if (!halts.has_halted()) break;
        stands_ = false;
        meetings.push_back({true, halts.take()});
        heard |= meetings.back().halt.reasons;
        steps_at_halts.push_back(steps);
        moved = true;
      } else if (rests_ && halts.is_rest_over()) {
        rests_ = asks_ = false;
        meetings.push_back({});
        ++stretch_;
        steps_in_stretch_ = 0;
        moved = true;
      } else if (halts.is_called()) {
        asks_ = false;
        stands_ = moved = true;
        append(actions, halts.on_message(rank_, halts.come(steps), now));
      } else if (asks_) {
        break;  // until it is called
      } else if (steps_in_stretch_ < stretches_[stretch_]) {
        is_stepping_ = true;
        const Time length(static_cast<Time::rep>(numbers_.unit() * 1e6));
        actions.push_back(machine::Arm{0, now + length});
      } else if (!std::exchange(rests_, true)) {
        append(actions, halts.on_message(rank_, halts.rest(), now));
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
  bool is_stepping_ = false, stands_ = false, rests_ = false, asks_ = false;
};

TEST(HaltMachine, AllRanksMakeTheSameHaltsAndRestsInOneOrderAndNobodyWaitsForEver) {
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
      for (std::size_t i = 0; i < member->steps_at_halts.size(); ++i)
        furthest[i] = std::max(furthest[i], member->steps_at_halts[i]);
    }
    ASSERT_EQ(members[0]->heard, asked) << "no ask is lost; seed " << number;
    std::size_t halts = 0;
    for (const auto& meeting : members[0]->meetings) {
      if (!meeting.is_halt) continue;
      ASSERT_EQ(meeting.halt.step, furthest[halts++]) << "seed " << number;
    }
  }
}

// Messages of one rank to itself, as a world of one has them.
void settle(HaltMachine& machine, const Message& told) {
  Actions actions = machine.on_message(0, told, {});
  for (std::size_t i = 0; i < actions.size(); ++i)
    for (const auto& more : machine.on_message(0, std::get<machine::Send>(actions[i]).message, {}))
      actions.push_back(more);
}

TEST(HaltMachine, ARankAloneHaltsAndRestsAtOnce) {
  HaltMachine machine(0, 1);
  settle(machine, HaltMachine::ask(2));
  ASSERT_TRUE(machine.is_called());
  settle(machine, machine.come(7));
  ASSERT_TRUE(machine.has_halted());
  EXPECT_EQ(machine.take(), (Halt{2, 7}));
  EXPECT_FALSE(machine.has_halted()) << "it was taken";
  settle(machine, machine.rest());
  EXPECT_TRUE(machine.is_rest_over());
}

TEST(HaltMachine, TellsOfARankThatEndsOnlyIfOthersWaitForIt) {
  HaltMachine machine(0, 3);
  EXPECT_TRUE(machine.on_lost(2, {}).empty());
  EXPECT_EQ(machine.missing(), std::nullopt);
  settle(machine, machine.rest());
  EXPECT_EQ(machine.missing(), 2);
  HaltMachine other(1, 3);
  std::ignore = other.on_lost(2, {});
  EXPECT_EQ(other.missing(), std::nullopt) << "rank 0 judges";
  std::ignore = other.on_message(0, {.kind = HaltMachine::kMissing, .index = 2}, {});
  EXPECT_EQ(other.missing(), 2);
}

}  // namespace
}  // namespace paceline::coordination
