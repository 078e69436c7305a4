#include "paceline/core/membership/store/store_machine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "paceline/core/machine/virtual_network.h"
#include "paceline/core/membership/store/store_frames.h"

namespace paceline::membership {
namespace {

using machine::Actions;
using machine::Arm;
using machine::Message;
using machine::Send;
using machine::Time;
using transport::FrameType;
using transport::WireReader;
using transport::WireWriter;
using namespace std::chrono_literals;

constexpr int kStore = 1000;

std::uint32_t kind_of(FrameType type) {
  return static_cast<std::uint32_t>(type);
}
Message set_key(const std::string& key, const std::string& value) {
  return {.kind = kind_of(frame::kStoreSet),
          .payload = WireWriter().text(key).raw(std::as_bytes(std::span(value))).bytes()};
}
Message get_key(const std::string& key, std::uint32_t request) {
  return {.kind = kind_of(frame::kStoreGet),
          .index = request,
          .payload = WireWriter().text(key).bytes()};
}
std::string value_of(int rank) {
  return fmt::format("value of rank {}", rank);
}
std::string text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A rank that sets its key at some time, and asks for another rank's and for all keys.
class Worker final : public machine::Machine {
 public:
  Worker(int rank, int ranks, Time sets_at) : rank_(rank), ranks_(ranks), sets_at_(sets_at) {}

  Actions on_message(int from, const Message& message, Time) override {
    if (from != kStore) {  // the test tells it to begin
      return {Send{kStore, StoreMachine::hello(rank_, ranks_, generation)},
              Send{kStore, get_key(fmt::format("key/{}", (rank_ + 1) % ranks_), 1)},
              Send{kStore, get_key("key/*", 2)}, Arm{0, sets_at_}};
    }
    if (message.kind == kind_of(frame::kVerdict)) {
      verdicts.push_back(transport::decode_failure(message.payload).value().what);
    } else if (message.index == 1) {
      one.push_back(text(message.payload));
    } else {
      WireReader reader(message.payload);
      while (!reader.rest().empty())
        all.push_back(text(reader.raw(reader.integer<std::uint32_t>())));
    }
    return {};
  }
  Actions on_timer(std::uint32_t, Time) override {
    return {Send{kStore, set_key(fmt::format("key/{}", rank_), value_of(rank_))}};
  }
  Actions on_lost(int, Time) override {
    dropped = true;
    return {};
  }

  std::uint64_t generation = 1;
  std::vector<std::string> one, all, verdicts;
  bool dropped = false;

 private:
  const int rank_, ranks_;
  const Time sets_at_;
};

TEST(StoreMachine, EveryRankHearsEveryKeyExactlyOnceInWhateverOrderTheyCome) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SeededNumbers numbers(seed);
    const int ranks = 1 + static_cast<int>(numbers.below(9));
    machine::VirtualNetwork network(seed, {.most_delay = 5ms});
    StoreMachine store(ranks);
    network.add(kStore, store);
    std::vector<std::unique_ptr<Worker>> workers;
    std::vector<std::string> values;
    for (int rank = 0; rank < ranks; ++rank) {
      workers.push_back(
          std::make_unique<Worker>(rank, ranks, std::chrono::microseconds(numbers.below(10'000))));
      network.add(rank, *workers.back());
      network.tell(rank, -2, {});
      values.push_back(value_of(rank));
    }
    network.run();
    for (int rank = 0; rank < ranks; ++rank) {
      const Worker& worker = *workers[static_cast<std::size_t>(rank)];
      EXPECT_EQ(worker.one, std::vector<std::string>{value_of((rank + 1) % ranks)});
      EXPECT_EQ(worker.all, values);
      EXPECT_FALSE(worker.dropped);
    }
  }
}

TEST(StoreMachine, KeysOfOneGenerationAreNotSeenByAnother) {
  machine::VirtualNetwork network(1, {});
  StoreMachine store(2);
  network.add(kStore, store);
  Worker zero(0, 2, 1ms), one(1, 2, 1ms);
  one.generation = 2;
  network.add(0, zero);
  network.add(1, one);
  network.tell(0, -2, {});
  network.tell(1, -2, {});
  network.run();
  EXPECT_TRUE(zero.one.empty() && zero.all.empty() && one.one.empty() && one.all.empty());
}

TEST(StoreMachine, ARankThatIsKilledMayComeAgainAndItsRequestsAreForgotten) {
  StoreMachine store(2);
  (void)store.on_message(0, StoreMachine::hello(0, 2, 1), 0ms);
  (void)store.on_message(0, get_key("key/1", 9), 0ms);
  (void)store.on_lost(0, 1ms);
  EXPECT_TRUE(store.on_message(1, StoreMachine::hello(0, 2, 1), 2ms).empty());
  (void)store.on_message(2, StoreMachine::hello(1, 2, 1), 2ms);
  EXPECT_TRUE(store.on_message(2, set_key("key/1", "x"), 3ms).empty());
}

TEST(StoreMachine, EveryClientHearsTheVerdictAlsoOneThatComesLater) {
  StoreMachine store(3);
  for (const int rank : {0, 1}) (void)store.on_message(rank, StoreMachine::hello(rank, 3, 1), 0ms);
  const Failure verdict{Fault::peer_lost, "rank 2 died", {2}};
  const Actions told = store.tell(verdict);
  ASSERT_EQ(told.size(), 2u);
  const Actions late = store.on_message(7, StoreMachine::hello(2, 3, 1), 1ms);
  ASSERT_EQ(late.size(), 1u);
  for (const machine::Action& action : {told[0], told[1], late[0]}) {
    const Message& message = std::get<Send>(action).message;
    EXPECT_EQ(transport::decode_failure(message.payload).value().what, "rank 2 died");
  }
}

TEST(StoreMachine, TheOwnerHearsOfObjectionsAndReportsWithTheirRank) {
  StoreMachine store(2);
  (void)store.on_message(0, StoreMachine::hello(1, 2, 1), 0ms);
  const Actions of_another_world = store.on_message(2, StoreMachine::hello(0, 3, 1), 0ms);
  ASSERT_EQ(of_another_world.size(), 2u);
  EXPECT_EQ(std::get<Send>(of_another_world[1]).to, StoreMachine::kOwner);
  const Actions objection = store.on_message(1, StoreMachine::hello(1, 2, 1), 0ms);
  ASSERT_EQ(objection.size(), 1u) << "a second process of a rank is told, and nobody else";
  EXPECT_EQ(std::get<Send>(objection[0]).to, 1);
  EXPECT_TRUE(store.on_message(1, set_key("key/1", "x"), 1ms).empty());  // it is not served
  const Message report = {.kind = kind_of(frame::kReport),
                          .payload = transport::encode(Failure{Fault::io, "no disk", {1}})};
  const Actions reported = store.on_message(0, report, 1ms);
  ASSERT_EQ(reported.size(), 1u);
  EXPECT_EQ(std::get<Send>(reported[0]).to, StoreMachine::kOwner);
  EXPECT_EQ(std::get<Send>(reported[0]).message.index, 1u);
}

Message map_of(std::size_t bytes) {
  return {.kind = kind_of(frame::kServerMap), .payload = std::vector<std::byte>(bytes)};
}

TEST(StoreMachine, EveryClientHearsEachMapAndWhoComesLaterTheNewestOne) {
  StoreMachine store(2, 1);
  for (const int rank : {0, 1}) (void)store.on_message(rank, StoreMachine::hello(rank, 3, 1), 0ms);
  (void)store.on_message(5, StoreMachine::hello(1, 3, 1), 0ms);  // a second rank 1: not served
  for (const std::size_t bytes : {3U, 5U})
    EXPECT_EQ(store.tell_map(std::vector<std::byte>(bytes)),
              (Actions{Send{0, map_of(bytes)}, Send{1, map_of(bytes)}}));
  EXPECT_EQ(store.on_message(7, StoreMachine::hello(2, 3, 1), 1ms), (Actions{Send{7, map_of(5)}}));
}

TEST(StoreMachine, TheOwnerHearsTheReportsOfServersAndOfNobodyElse) {
  StoreMachine store(2, 1);
  const Message report = {.kind = kind_of(frame::kServerReport),
                          .payload = std::vector<std::byte>(9)};
  (void)store.on_message(0, StoreMachine::hello(2, 3, 1), 0ms);
  EXPECT_EQ(store.on_message(0, report, 1ms),
            (Actions{Send{StoreMachine::kOwner,
                          {.kind = report.kind, .index = 2, .payload = report.payload}}}));
  const Message linked = {.kind = kind_of(frame::kLinked)};
  EXPECT_EQ(store.on_message(0, linked, 1ms),
            (Actions{Send{StoreMachine::kOwner, {.kind = linked.kind, .index = 2}}}));
  (void)store.on_message(1, StoreMachine::hello(1, 3, 1), 0ms);
  const Actions refused = store.on_message(1, report, 1ms);
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(std::get<machine::Drop>(refused[0]).peer, 1);
}

TEST(StoreMachine, ALateServerIsLetInWhenItIsExpectedAndOnce) {
  StoreMachine store(2, 1);
  const auto comes = [&](int client, int member) {
    (void)store.on_message(client, StoreMachine::hello(member, 3, 1), 0ms);
    return store.serves(client);
  };
  EXPECT_FALSE(comes(0, 3));
  store.expect(3);
  EXPECT_TRUE(comes(1, 3));
  EXPECT_FALSE(comes(2, 3)) << "a second process of it";
  EXPECT_FALSE(comes(3, 4));
}

// A newcomer connects to all that live, so it must hear of those that do not.
TEST(StoreMachine, ValuesOfAMemberThatHasGoneAreEmptyAndWhoWaitsForThemHearsSo) {
  StoreMachine store(1, 2);
  for (const int member : {0, 1, 2})
    (void)store.on_message(member, StoreMachine::hello(member, 3, 1), 0ms);
  for (const int member : {0, 1, 2})
    (void)store.on_message(member, set_key(fmt::format("key/{}", member), value_of(member)), 0ms);
  EXPECT_TRUE(store.bury(1).empty());
  store.expect(3);
  (void)store.on_message(3, StoreMachine::hello(3, 3, 1), 0ms);
  (void)store.on_message(3, set_key("key/3", value_of(3)), 0ms);
  const auto answer = [&](const Actions& actions) {
    EXPECT_EQ(actions.size(), 1U);
    return std::get<Send>(actions.at(0)).message.payload;
  };
  EXPECT_TRUE(answer(store.on_message(3, get_key("key/1", 1), 1ms)).empty());
  EXPECT_EQ(text(answer(store.on_message(3, get_key("key/2", 2), 1ms))), value_of(2));
  std::vector<std::string> all;
  const auto bytes = answer(store.on_message(3, get_key("key/*", 3), 1ms));
  for (WireReader reader(bytes); !reader.rest().empty();)
    all.push_back(text(reader.raw(reader.integer<std::uint32_t>())));
  EXPECT_EQ(all, (std::vector<std::string>{value_of(0), "", value_of(2)}))
      << "without the late one";

  EXPECT_TRUE(store.on_message(3, get_key("other/12", 4), 1ms).empty());
  EXPECT_TRUE(store.on_message(3, get_key("other/2", 5), 1ms).empty());
  const Actions told = store.bury(2);
  ASSERT_EQ(told.size(), 1U) << "nobody else ends in 2";
  EXPECT_EQ(std::get<Send>(told[0]).message.index, 5U);
  EXPECT_TRUE(std::get<Send>(told[0]).message.payload.empty());
}

TEST(StoreMachine, GarbageDropsItsSenderAndNobodyElse) {
  SeededNumbers numbers(5);
  for (int trial = 0; trial < 2000; ++trial) {
    StoreMachine store(2);
    (void)store.on_message(0, StoreMachine::hello(0, 2, 1), 0ms);
    (void)store.on_message(1, StoreMachine::hello(1, 2, 1), 0ms);
    Message garbage{.kind = static_cast<std::uint32_t>(numbers.below(64)),
                    .payload = std::vector<std::byte>(numbers.below(40))};
    for (std::byte& b : garbage.payload) b = static_cast<std::byte>(numbers());
    for (const machine::Action& action : store.on_message(0, garbage, 1ms)) {
      const auto* drop = std::get_if<machine::Drop>(&action);
      if (drop != nullptr) {
        EXPECT_EQ(drop->peer, 0);
      }
    }
    EXPECT_TRUE(store.on_message(1, set_key("key/1", "x"), 2ms).empty());
    EXPECT_EQ(store.on_message(1, get_key("key/1", 3), 2ms).size(), 1u);
  }
}

}  // namespace
}  // namespace paceline::membership
