// Also covers paceline/core/machine/machine.h.
#include "paceline/core/machine/virtual_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace paceline::machine {
namespace {

using namespace std::chrono_literals;

// Writes down all that it is told, and answers as the test says.
class Diary final : public Machine {
 public:
  struct Line {
    char what;  // m: message, t: timer, l: lost
    int from;
    std::uint32_t index;
    Time at;
    bool operator==(const Line&) const = default;
  };
  std::vector<Line> lines;
  std::function<Actions(const Line&)> answer = [](const Line&) { return Actions{}; };

  Actions on_message(int from, const Message& message, Time now) override {
    return note({'m', from, message.index, now});
  }
  Actions on_timer(std::uint32_t timer, Time now) override { return note({'t', -1, timer, now}); }
  Actions on_lost(int peer, Time now) override { return note({'l', peer, 0, now}); }

  std::vector<std::uint32_t> indices() const {
    std::vector<std::uint32_t> all;
    for (const Line& line : lines)
      if (line.what == 'm') all.push_back(line.index);
    return all;
  }

 private:
  Actions note(Line line) {
    lines.push_back(line);
    return answer(line);
  }
};

// Machine 1 sends `count` numbered messages to machine 2 when it is told to begin.
struct Stream {
  Diary sender, receiver;
  VirtualNetwork network;
  Stream(std::uint64_t seed, const NetworkFaults& faults, std::uint32_t count)
      : network(seed, faults) {
    sender.answer = [count](const Diary::Line& line) {
      Actions actions;
      for (std::uint32_t i = 0; line.what == 'm' && i < count; ++i)
        actions.push_back(Send{2, {.index = i}});
      return actions;
    };
    network.add(1, sender);
    network.add(2, receiver);
    network.tell(1, 0, {});
  }
};

TEST(VirtualNetwork, DeliversEachMessageOnceInOrderWithinTheDelays) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const NetworkFaults faults = {.least_delay = 5us, .most_delay = 9us};
    Stream stream(seed, faults, 50);
    stream.network.run();
    ASSERT_EQ(stream.receiver.lines.size(), 50u);
    for (std::uint32_t i = 0; i < 50; ++i) {
      EXPECT_EQ(stream.receiver.lines[i].index, i);
      EXPECT_GE(stream.receiver.lines[i].at, 5us);
      EXPECT_LE(stream.receiver.lines[i].at, 9us);
    }
  }
}

TEST(VirtualNetwork, WithOvertakingTheSameMessagesArriveInAnotherOrder) {
  Stream stream(1, {.overtaking = true}, 50);
  stream.network.run();
  auto indices = stream.receiver.indices();
  EXPECT_FALSE(std::ranges::is_sorted(indices));
  std::ranges::sort(indices);
  for (std::uint32_t i = 0; i < 50; ++i) EXPECT_EQ(indices[i], i);
}

TEST(VirtualNetwork, LossAndDuplicationHaveTheSharesThatTheWeatherSays) {
  Stream lossy(1, {.loss = .25}, 10000), twice(1, {.duplication = .25}, 10000);
  lossy.network.run();
  twice.network.run();
  EXPECT_NEAR(static_cast<double>(lossy.receiver.lines.size()), 7500, 200);
  EXPECT_NEAR(static_cast<double>(twice.receiver.lines.size()), 12500, 200);
}

TEST(VirtualNetwork, TheSameSeedIsTheSameRunAndAnotherSeedIsAnother) {
  const NetworkFaults faults = {.loss = .1, .duplication = .1, .overtaking = true};
  Stream one(7, faults, 100), same(7, faults, 100), other(8, faults, 100);
  for (Stream* stream : {&one, &same, &other}) stream->network.run();
  EXPECT_EQ(one.receiver.lines, same.receiver.lines);
  EXPECT_EQ(one.network.fingerprint(), same.network.fingerprint());
  EXPECT_NE(one.network.fingerprint(), other.network.fingerprint());
}

TEST(VirtualNetwork, ATimerThatIsArmedAgainRingsOnceAtTheLastTime) {
  Diary machine;
  machine.answer = [](const Diary::Line& line) {
    if (line.what != 'm') return Actions{};
    return Actions{Arm{3, 10ms}, Arm{3, 20ms}, Arm{4, 15ms}};
  };
  VirtualNetwork network(1, {});
  network.add(1, machine);
  network.tell(1, 0, {});
  network.run();
  ASSERT_EQ(machine.lines.size(), 3u);
  EXPECT_EQ(machine.lines[1], (Diary::Line{'t', -1, 4, 15ms}));
  EXPECT_EQ(machine.lines[2], (Diary::Line{'t', -1, 3, 20ms}));
}

TEST(VirtualNetwork, APeerOfAKilledMachineHearsOfItsLossOnceAfterItsLastMessage) {
  Stream stream(3, {}, 10);
  Diary stranger;
  stream.network.add(3, stranger);
  stream.network.kill(1, 2ms);
  stream.network.run();
  ASSERT_EQ(stream.receiver.lines.size(), 11u);
  EXPECT_EQ(stream.receiver.lines.back().what, 'l');
  EXPECT_EQ(stream.receiver.lines.back().from, 1);
  EXPECT_TRUE(stranger.lines.empty());
}

TEST(VirtualNetwork, APeerThatIsDroppedHearsWhatWasSentBeforeAndSaysNothingAnyMore) {
  Diary server, client;
  VirtualNetwork network(1, {});
  network.add(1, server);
  network.add(2, client);
  server.answer = [](const Diary::Line& line) {
    if (line.what != 'm' || line.index != 1) return Actions{};
    return Actions{Send{2, {.index = 7}}, Drop{2, {Fault::io, "malformed", {}}}};
  };
  client.answer = [](const Diary::Line& line) {
    if (line.what == 'm' && line.from == 0)
      return Actions{Send{1, {.index = 1}}, Send{1, {.index = 2}}};
    return Actions{};
  };
  network.tell(2, 0, {});
  network.run();
  EXPECT_EQ(server.indices(), std::vector<std::uint32_t>{1});
  ASSERT_EQ(client.lines.size(), 3u);
  EXPECT_EQ(client.lines[1].index, 7u);
  EXPECT_EQ(client.lines[2].what, 'l');
}

}  // namespace
}  // namespace paceline::machine
