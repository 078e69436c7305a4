#include "paceline/core/coordination/async_gossip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "paceline/core/coordination/machine_run.h"
#include "paceline/core/machine/virtual_network.h"
#include "tests/core/collective/worlds.h"
#include "tests/core/coordination/long_waits.h"
#include "tests/core/coordination/rings.h"
#include "tests/support/nightly.h"
#include "tests/support/seed.h"

namespace paceline::coordination::testing {
namespace {

using collective::testing::kShared;
using collective::testing::kTcp;
using machine::Actions;
using machine::Message;
using machine::Send;
using machine::Time;
using machine::VirtualNetwork;
using test::run_ranks;
using namespace std::chrono_literals;

constexpr std::size_t kLength = 3;
using Values = std::vector<double>;

Values values_of(const Message& message) {
  Values values(message.payload.size() / sizeof(double));
  std::memcpy(values.data(), message.payload.data(), message.payload.size());
  return values;
}

// The ledger notes all that the ranks of a virtual world have done, and what is under way between
// them.
struct Ledger {
  Values expected = Values(kLength);         // the start and all updates
  double size = 0;                           // of all that was added, for the relative error
  std::map<int, Values> offered, under_way;  // by active rank
  std::uint64_t begun = 0, answered = 0;
  std::function<void()> after_event;
};

// One rank that trains: at its timer it adds a random update and asks for an exchange.
class TrainingRank final : public machine::Machine {
 public:
  TrainingRank(int rank, const GossipPlace& place, int steps, std::uint64_t seed, Ledger& ledger)
      : rank_(rank), steps_(steps), numbers_(seed), ledger_(ledger) {
    Values start(kLength);
    draw(start);
    gossip = std::make_unique<AsyncGossip<double>>(place, start, numbers_.next());
  }

  Actions on_message(int from, const Message& message, Time now) override {
    if (from == kOutside) return {next_step(now)};
    if (message.kind == AsyncGossip<double>::kMean) {
      ledger_.under_way.erase(rank_);
      ++ledger_.answered;
    }
    return noted(gossip->on_message(from, message, now));
  }
  Actions on_timer(std::uint32_t, Time now) override {
    Values update(kLength);
    draw(update);
    gossip->add(update);
    Actions actions = noted(gossip->on_message(rank_, gossip->ask(), now));
    if (--steps_ > 0) actions.push_back(next_step(now));
    return actions;
  }
  Actions on_lost(int peer, Time now) override { return gossip->on_lost(peer, now); }

  static constexpr int kOutside = -1;
  std::unique_ptr<AsyncGossip<double>> gossip;

 private:
  void draw(Values& into) {
    for (std::size_t i = 0; i < kLength; ++i) {
      into[i] = 2 * numbers_.unit() - 1;
      ledger_.expected[i] += into[i];
      ledger_.size += std::abs(into[i]);
    }
  }
  machine::Arm next_step(Time now) {
    return {0, now + Time(static_cast<Time::rep>(numbers_.unit() * 2e6))};
  }
  Actions noted(Actions actions) {
    for (const auto& action : actions) {
      const auto& send = std::get<Send>(action);  // nobody is dropped
      if (send.message.kind == AsyncGossip<double>::kOffer) {
        ledger_.offered[rank_] = values_of(send.message);
        ++ledger_.begun;
      } else {
        Values missing = values_of(send.message);
        for (std::size_t i = 0; i < kLength; ++i) missing[i] -= ledger_.offered[send.to][i];
        ledger_.under_way[send.to] = missing;
      }
    }
    ledger_.after_event();
    return actions;
  }

  const int rank_;
  int steps_;
  SeededNumbers numbers_;
  Ledger& ledger_;
};

struct VirtualWorld {
  Ledger ledger;
  std::vector<std::unique_ptr<TrainingRank>> ranks;
  VirtualNetwork network;
  double worst = 0;  // error of the sum, relative

  VirtualWorld(const std::vector<std::vector<int>>& graph, int steps, std::uint64_t seed)
      : network(seed, {.overtaking = true}) {
    ledger.after_event = [this] { look(); };
    const auto places = gossip_places(graph).value();
    for (std::size_t rank = 0; rank < graph.size(); ++rank) {
      const int number = static_cast<int>(rank);
      ranks.push_back(
          std::make_unique<TrainingRank>(number, places[rank], steps, mix(seed, rank), ledger));
      network.add(number, *ranks.back());
      network.tell(number, TrainingRank::kOutside, {});
    }
  }

  Values sum() const {
    Values sum(kLength), one(kLength);
    for (const auto& rank : ranks) {
      rank->gossip->read(one);
      for (std::size_t i = 0; i < kLength; ++i) sum[i] += one[i];
    }
    return sum;
  }
  void look() {
    Values all = sum();
    for (const auto& [rank, missing] : ledger.under_way)
      for (std::size_t i = 0; i < kLength; ++i) all[i] += missing[i];
    for (std::size_t i = 0; i < kLength; ++i)
      worst = std::max(worst, std::abs(all[i] - ledger.expected[i]) / ledger.size);
  }
};

// A graph of two sides: rank r of the first has edges to some of the others.
std::vector<std::vector<int>> random_sides(int first, int second, SeededNumbers& numbers) {
  std::vector<std::vector<int>> graph(static_cast<std::size_t>(first + second));
  for (int a = 0; a < first; ++a) {
    for (int b = first; b < first + second; ++b) {
      if (numbers.unit() > .6) continue;
      graph[static_cast<std::size_t>(a)].push_back(b);
      graph[static_cast<std::size_t>(b)].push_back(a);
    }
  }
  return graph;
}

int seeds() {
  return test::is_nightly() ? 10000 : test::is_brief() ? 100 : 1000;
}

TEST(AsyncGossip, EveryExchangeIsAnsweredAndTheSumIsKeptAtEveryEvent) {
  std::uint64_t answered = 0;
  for (int number = 0; number < seeds(); ++number) {
    SeededNumbers numbers(test::seed(2400000 + static_cast<std::uint64_t>(number)));
    const auto graph = number % 2 == 0
                           ? ring(2 + 2 * static_cast<int>(numbers.below(4)))
                           : random_sides(1 + static_cast<int>(numbers.below(4)),
                                          1 + static_cast<int>(numbers.below(4)), numbers);
    VirtualWorld world(graph, 20, numbers.next());
    world.network.run();
    ASSERT_LE(world.worst, 1e-12) << "seed " << number;
    ASSERT_EQ(world.ledger.begun, world.ledger.answered) << "seed " << number;
    ASSERT_TRUE(world.ledger.under_way.empty());
    for (const auto& rank : world.ranks) ASSERT_TRUE(rank->gossip->is_quiet()) << number;
    answered += world.ledger.answered;
  }
  EXPECT_GT(answered, static_cast<std::uint64_t>(seeds()) * 10) << "the ranks did exchange";
}

TEST(AsyncGossip, ARankHasOneExchangeOutstanding) {
  const double start = 1;
  AsyncGossip<double> active({true, {1}}, std::span(&start, 1), 1);
  EXPECT_TRUE(active.is_quiet());
  const auto first = active.on_message(0, active.ask(), {});
  ASSERT_EQ(first.size(), 1u);
  EXPECT_TRUE(active.on_message(0, active.ask(), {}).empty());
  EXPECT_FALSE(active.is_quiet());
  AsyncGossip<double> passive({false, {0}}, std::span(&start, 1), 2);
  EXPECT_TRUE(passive.on_message(1, passive.ask(), {}).empty()) << "it only answers";
  const auto answer = passive.on_message(0, std::get<Send>(first[0]).message, {});
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_TRUE(active.on_message(1, std::get<Send>(answer[0]).message, {}).empty());
  EXPECT_TRUE(active.is_quiet());
  EXPECT_EQ(active.exchanges(), 1u);
  EXPECT_EQ(active.on_message(0, active.ask(), {}).size(), 1u) << "then it may begin again";
}

TEST(AsyncGossip, APairEndsAtItsMeanAndKeepsUpdatesOfTheMeantime) {
  const float low = 1, high = 5, update = 0.5f;
  AsyncGossip<float> active({true, {1}}, std::span(&low, 1), 1);
  AsyncGossip<float> passive({false, {0}}, std::span(&high, 1), 2);
  const auto offer = active.on_message(0, active.ask(), {});
  float snapshot = 0;
  active.add_and_read(std::span(&update, 1), std::span(&snapshot, 1));
  EXPECT_EQ(snapshot, 1.5f);
  const auto answer = passive.on_message(0, std::get<Send>(offer[0]).message, {});
  std::ignore = active.on_message(1, std::get<Send>(answer[0]).message, {});
  float x = 0;
  active.read(std::span(&x, 1));
  EXPECT_EQ(x, 3.5f);
  passive.read(std::span(&x, 1));
  EXPECT_EQ(x, 3.0f);
  EXPECT_EQ(active.sent_bytes(), sizeof(float));
  EXPECT_EQ(passive.sent_bytes(), sizeof(float));
}

TEST(AsyncGossip, APeerOfAnotherLengthIsDroppedAndALostOneIsNotWaitedFor) {
  const std::vector<double> two = {1, 2}, three = {1, 2, 3};
  AsyncGossip<double> active({true, {1}}, two, 1), passive({false, {0}}, three, 2);
  const auto offer = active.on_message(0, active.ask(), {});
  const auto refusal = passive.on_message(0, std::get<Send>(offer[0]).message, {});
  ASSERT_EQ(refusal.size(), 1u);
  EXPECT_THAT(std::get<machine::Drop>(refusal[0]).why.what,
              ::testing::HasSubstr("16 bytes (kind 2, exchange 1) to a gossiping vector of 24"));
  std::ignore = active.on_lost(1, {});
  EXPECT_TRUE(active.is_quiet());
  EXPECT_EQ(active.unanswered(), 1);
  EXPECT_TRUE(active.on_message(0, active.ask(), {}).empty()) << "nobody is left";
  EXPECT_THROW(active.add(three), Error);
}

// The control: every rank begins, and holds a lock on its own vector until it is answered.
class LockingRank final : public machine::Machine {
 public:
  LockingRank(std::vector<int> neighbours, std::uint64_t seed)
      : neighbours_(std::move(neighbours)), numbers_(seed) {}
  Actions on_message(int from, const Message& message, Time) override {
    Actions actions;
    if (message.kind == 1) waiting_.push_back(from);
    else if (message.kind == 2) ++answered;
    if (message.kind == 2) locked_ = false;
    for (; !locked_ && !waiting_.empty(); waiting_.pop_front())
      actions.push_back(Send{waiting_.front(), {.kind = 2}});
    if (message.kind != 1 && answered < kExchanges) {  // told to begin, or answered
      locked_ = true;
      actions.push_back(Send{neighbours_[numbers_.below(neighbours_.size())], {.kind = 1}});
    }
    return actions;
  }
  Actions on_timer(std::uint32_t, Time) override { return {}; }
  Actions on_lost(int, Time) override { return {}; }
  static constexpr int kExchanges = 20;
  int answered = 0;

 private:
  const std::vector<int> neighbours_;
  SeededNumbers numbers_;
  std::deque<int> waiting_;
  bool locked_ = false;
};

// How many exchanges of how many end.
std::pair<int, int> lock_on_a_ring(int size, bool all_begin, std::uint64_t seed) {
  VirtualNetwork network(seed, {.overtaking = true});
  std::vector<std::unique_ptr<LockingRank>> ranks;
  int asked = 0, answered = 0;
  for (int rank = 0; rank < size; ++rank) {
    ranks.push_back(std::make_unique<LockingRank>(ring(size)[static_cast<std::size_t>(rank)],
                                                  mix(seed, static_cast<std::uint64_t>(rank))));
    network.add(rank, *ranks.back());
    if (!all_begin && rank % 2 != 0) continue;
    network.tell(rank, -1, {});
    asked += LockingRank::kExchanges;
  }
  network.run();
  for (const auto& rank : ranks) answered += rank->answered;
  return {answered, asked};
}

TEST(AsyncGossip, ButRanksThatAllBeginAndLockStopForEverOnARingOfFive) {
  for (std::uint64_t number = 0; number < 200; ++number) {
    const auto [answered, asked] = lock_on_a_ring(5, true, test::seed(2410000 + number));
    EXPECT_LT(answered, asked) << number;
    const auto [all, of] = lock_on_a_ring(6, false, test::seed(2420000 + number));
    EXPECT_EQ(all, of) << "one side alone begins; " << number;
  }
}

TEST(AsyncGossip, OnLinksRanksThatTrainMixTheirVectorsAndKeepTheSum) {
  const int steps = test::is_brief() ? 10 : 30;
  constexpr std::size_t kLongerThanAFrame = (std::size_t{5} << 20) / sizeof(double);
  const std::size_t length = test::is_brief() ? 1000 : kLongerThanAFrame;
  for (const auto& options : {kShared, kTcp}) {
    run_ranks(4, options, [&](Job& job) {
      Communicator& world = job.world();
      const auto places = gossip_places(ring(4)).value();
      const Values start(length, world.rank()), update(length, 0.25);
      AsyncGossip<double> gossip(places[static_cast<std::size_t>(world.rank())], start,
                                 static_cast<std::uint64_t>(world.rank()));
      MachineRun run(world, gossip);
      for (int step = 0; step < steps; ++step) {
        gossip.add(update);
        run.tell(gossip.ask());
        if (step % 5 != 0) continue;
        run.wait_within(
            "quiet", [&] { return gossip.is_quiet(); }, 20s);
      }
      run.wait_within(
          "quiet", [&] { return gossip.is_quiet(); }, 20s);
      world.barrier().wait();
      EXPECT_FALSE(gossip.unanswered());
      Values x(length);
      gossip.read(x);
      const double sum = world.all_reduce(x.front() + x.back());
      EXPECT_NEAR(sum, 2 * (0 + 1 + 2 + 3 + 4 * steps * 0.25), 1e-9);
      EXPECT_GE(gossip.exchanges(), world.rank() % 2 == 0 ? 3u : 0u);
    });
  }
}

TEST(AsyncGossip, WhoWaitsForRestNamesThePartnerThatDoesNotAnswer) {
  std::atomic<bool> is_mute = false;
  std::latch is_over(1);
  const LongWaits said = long_waits(2, is_mute, [&](Job& job) {
    const auto places = gossip_places(ring(2)).value();
    const auto backwards = job.world().split(0, -job.rank());
    const auto own = static_cast<std::size_t>(backwards->rank());
    AsyncGossip<double> gossip(places[own], Values(10), 1);
    MachineRun run(*backwards, gossip);
    if (job.rank() == 0) return is_over.wait();
    is_mute = true;
    run.tell(gossip.ask());
    try {
      wait_for_rest("the end", run, *backwards, gossip);
    } catch (const Error&) {
      is_over.count_down();
      throw;
    }
  });
  expect_told(said, 1, "the end for rank 0, which does not answer");
  EXPECT_EQ(said.blamed[1], std::vector{0});
}

}  // namespace
}  // namespace paceline::coordination::testing
