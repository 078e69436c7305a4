#include "paceline/core/coordination/ticket_machine.h"

#include <gtest/gtest.h>

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

// Works off parts, each in a random time about its own pace, for some epochs.
class WorkerWithTickets final : public machine::Machine {
 public:
  WorkerWithTickets(int rank, int ranks, std::int64_t parts, std::uint32_t epochs, Time pace,
                    std::uint64_t seed)
      : tickets(rank, ranks, parts), rank_(rank), epochs_(epochs), pace_(pace), numbers_(seed) {}

  Actions on_message(int from, const Message& message, Time now) override {
    if (from < 0) return want(now);
    return go_on(tickets.on_message(from, message, now), now);
  }
  Actions on_timer(std::uint32_t, Time now) override {
    works_ = false;
    return want(now);
  }
  Actions on_lost(int peer, Time now) override { return go_on(tickets.on_lost(peer, now), now); }

  TicketMachine tickets;
  std::vector<std::vector<std::int64_t>> taken = {{}};  // by epoch; the last one is under way
  Time longest_wait = {};

 private:
  bool is_done() const { return tickets.epoch() == epochs_; }
  Actions want(Time now) {
    waits_since_ = now;
    return go_on(tickets.on_message(rank_, tickets.want(), now), now);
  }
  // Takes what has come, and asks for the part after it.
  Actions go_on(Actions actions, Time now) {
    while (!works_ && !is_done() && tickets.is_settled() && !tickets.is_forsaken()) {
      longest_wait = std::max(longest_wait, now - waits_since_);
      const auto part = tickets.take();
      if (part) {
        taken.back().push_back(*part);
        works_ = true;
        const double time = (.5 + numbers_.unit()) * static_cast<double>(pace_.count());
        actions.push_back(machine::Arm{0, now + Time(static_cast<Time::rep>(time))});
      } else {
        taken.emplace_back();
        waits_since_ = now;
        if (is_done()) break;
      }
      append(actions, tickets.on_message(rank_, tickets.want(), now));
    }
    return actions;
  }

  const int rank_;
  const std::uint32_t epochs_;
  const Time pace_;
  SeededNumbers numbers_;
  bool works_ = false;
  Time waits_since_ = {};
};

struct WorldOfWorkers {
  std::vector<std::unique_ptr<WorkerWithTickets>> workers;
  machine::VirtualNetwork network;

  WorldOfWorkers(std::int64_t parts, std::uint32_t epochs, const std::vector<Time>& paces,
                 std::uint64_t seed)
      : network(seed, {.least_delay = 10us, .most_delay = 1ms, .overtaking = true}) {
    const int ranks = static_cast<int>(paces.size());
    for (int rank = 0; rank < ranks; ++rank) {
      workers.push_back(std::make_unique<WorkerWithTickets>(
          rank, ranks, parts, epochs, paces[static_cast<std::size_t>(rank)],
          mix(seed, static_cast<std::uint64_t>(rank))));
      network.add(rank, *workers.back());
      network.tell(rank, -1, {});
    }
    network.run();
  }
};

TEST(TicketMachine, EachPartIsTakenOnceInEachEpochAndEveryRankHearsOfTheEnd) {
  const int seeds = test::is_nightly() ? 10000 : test::is_brief() ? 100 : 1000;
  for (int number = 0; number < seeds; ++number) {
    SeededNumbers numbers(test::seed(2430000 + static_cast<std::uint64_t>(number)));
    const auto parts = static_cast<std::int64_t>(numbers.below(40));
    constexpr std::uint32_t kEpochs = 3;
    std::vector<Time> paces(1 + numbers.below(7));
    for (Time& pace : paces) pace = Time(static_cast<Time::rep>(numbers.unit() * 4e6));
    const WorldOfWorkers world(parts, kEpochs, paces, numbers.next());
    for (std::uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
      std::vector<int> times(static_cast<std::size_t>(parts));
      for (const auto& worker : world.workers) {
        ASSERT_EQ(worker->tickets.epoch(), kEpochs) << "it hears of each end; seed " << number;
        for (const auto part : worker->taken[epoch]) ++times.at(static_cast<std::size_t>(part));
      }
      ASSERT_EQ(times, std::vector<int>(times.size(), 1)) << "seed " << number;
    }
    for (const auto& worker : world.workers)
      ASSERT_LE(worker->longest_wait, 2ms)
          << "nobody waits for more than a round trip; seed " << number;
  }
}

TEST(TicketMachine, FastRanksTakeMoreAndWaitForNoRoundTrip) {
  const WorldOfWorkers world(300, 1, {40ms, 10ms, 10ms, 20ms}, test::seed(2440000));
  std::vector<std::size_t> taken;
  for (const auto& worker : world.workers) taken.push_back(worker->taken[0].size());
  // The shares of speeds 1, 4, 4, 2.
  EXPECT_NEAR(static_cast<double>(taken[0]), 300. * 1 / 11, 5);
  EXPECT_NEAR(static_cast<double>(taken[1]), 300. * 4 / 11, 10);
  EXPECT_NEAR(static_cast<double>(taken[2]), 300. * 4 / 11, 10);
  EXPECT_NEAR(static_cast<double>(taken[3]), 300. * 2 / 11, 7);
}

TEST(TicketMachine, ARankThatHasLostTheDealerTakesWhatItHasAndIsForsaken) {
  TicketMachine machine(1, 2, 10);
  EXPECT_EQ(machine.on_message(1, machine.want(), {}).size(), 1u);
  EXPECT_TRUE(machine.on_message(1, machine.want(), {}).empty()) << "one ask at a time";
  TicketMachine dealer(0, 2, 10);
  const auto ticket = dealer.on_message(1, {.kind = TicketMachine::kAsk}, {});
  ASSERT_EQ(ticket.size(), 1u);
  std::ignore = machine.on_message(0, std::get<machine::Send>(ticket[0]).message, {});
  std::ignore = machine.on_lost(0, {});
  EXPECT_FALSE(machine.is_forsaken());
  EXPECT_EQ(machine.take(), 0);
  EXPECT_TRUE(machine.is_forsaken());
  EXPECT_TRUE(machine.is_settled()) << "nobody waits for it";
}

TEST(TicketMachine, AnEpochWhoseEndWasToldEndsAlsoWithoutTheDealer) {
  TicketMachine machine(1, 2, 1);
  EXPECT_EQ(machine.on_message(1, machine.want(), {}).size(), 1u);
  std::ignore = machine.on_message(0, {.kind = TicketMachine::kEnd}, {});
  EXPECT_FALSE(machine.is_settled()) << "its ask is not answered yet";
  std::ignore = machine.on_lost(0, {});
  EXPECT_FALSE(machine.is_forsaken());
  EXPECT_EQ(machine.take(), std::nullopt);
  EXPECT_TRUE(machine.is_forsaken()) << "in the next epoch";
}

}  // namespace
}  // namespace paceline::coordination
