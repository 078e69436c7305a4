// The properties that only a link over a fabric has; link_test.cpp has those of every link. Also
// covers paceline/core/transport/fabric/fabric_driver.h and fabric_plugin.h.
#include "paceline/core/transport/fabric/fabric_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "paceline/core/transport/fabric/fabric_driver.h"
#include "paceline/core/transport/fabric/fabric_plugin.h"
#include "paceline/core/transport/frame/frame_stream.h"
#include "tests/core/transport/link_ends.h"
#include "tests/support/pattern.h"

namespace paceline::transport {
namespace {

using namespace std::chrono_literals;
using test::End;
using test::pattern;
using ::testing::HasSubstr;

constexpr int kNoBell = -1;

// One end is a link; the other is played by the test, which may say what no link says.
class FabricLink : public ::testing::Test {
 protected:
  FabricLink() {
    auto [socket, peers] = test::tcp_pair();
    auto fabric = std::make_unique<test::LoopbackFabric>(network_, 1);
    peers_connection = std::move(peers);
    peers_port = std::make_unique<test::LoopbackPort>(*network_, kNoBell, 2);
    end.reactor.run([&] {
      end.fabric = std::make_unique<FabricDriver>(std::move(fabric), end.reactor);
      auto port = end.fabric->fabric().open();
      EXPECT_TRUE(port->connect(peers_port->address()));
      EXPECT_TRUE(peers_port->connect(port->address()));
      end.link = make_fabric_link(std::move(port), std::move(socket), test::kFirst, true, end,
                                  end.reactor);
    });
  }

  static std::vector<std::byte> prefix(const FrameHeader& header, Bytes payload,
                                       std::uint64_t number) {
    const auto raw = encode(stamped(header, payload, test::kSecond, true));
    return WireWriter().raw(raw).integer(number).bytes();
  }
  void say(const FrameHeader& header, Bytes payload, std::uint64_t number) {
    send(prefix(header, payload, number), payload, number);
  }
  void send(Bytes its_prefix, Bytes payload, std::uint64_t number) {
    const auto& kept = payloads_.emplace_back(payload.begin(), payload.end());
    peers_port->send(its_prefix, kept, number);
  }
  void say_on_connection(const FrameHeader& header) {
    EXPECT_TRUE(send_all(peers_connection.get(), encode(stamped(header, {}, test::kSecond, false)),
                         Deadline::in(5s)));
  }
  void expect_refused(std::string_view why) {
    ASSERT_TRUE(end.wait_for_lost());
    EXPECT_EQ(end.losses[0].fault, Fault::io);
    EXPECT_THAT(end.losses[0].what, HasSubstr(why));
    EXPECT_EQ(end.heard_count, 0);
  }

  const std::shared_ptr<test::LoopbackNetwork> network_ = std::make_shared<test::LoopbackNetwork>();
  std::deque<std::vector<std::byte>> payloads_;  // may be lent until they are fetched
  End end;
  FileDescriptor peers_connection;
  std::unique_ptr<test::LoopbackPort> peers_port;
};

TEST_F(FabricLink, HandsFramesOverInTheirOrderWhateverOrderTheyComeIn) {
  const auto payload = pattern(100, 1);
  for (const std::uint64_t number : {3, 1, 2, 0})
    say({.type = FrameType::data, .sequence = number}, payload, number);
  ASSERT_TRUE(end.wait_for_heard(4));
  end.reactor.run([&] {
    for (std::uint64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(end.heard[i].header.sequence, i);
      EXPECT_EQ(end.heard[i].payload, payload);
    }
  });
}

TEST_F(FabricLink, ARepeatedNumberIsRefused) {
  for (const std::uint64_t number : {5, 5}) say({.type = FrameType::data}, pattern(100, 1), number);
  expect_refused("a number that it has sent before");
}

TEST_F(FabricLink, ALengthThatIsNotTheMessagesIsRefused) {
  send(prefix({.type = FrameType::data}, pattern(100, 1), 0), pattern(99, 1), 0);
  expect_refused("a payload of another length");
}

TEST_F(FabricLink, APrefixOfAnotherLengthIsRefused) {
  auto longer = prefix({.type = FrameType::data}, {}, 0);
  longer.push_back(std::byte{0});
  send(longer, {}, 0);
  expect_refused("a prefix of another length");
}

TEST_F(FabricLink, AFrameOfAnotherSenderIsRefused) {
  const auto raw = encode(stamped({.type = FrameType::data}, {}, test::kFirst, true));
  send(WireWriter().raw(raw).integer(std::uint64_t{0}).bytes(), {}, 0);
  expect_refused("on the link to rank 1");
}

TEST_F(FabricLink, ADamagedPayloadIsRefused) {
  send(prefix({.type = FrameType::data}, pattern(100, 1), 0), pattern(100, 2), 0);
  expect_refused("payload checksum of a data frame");
}

TEST_F(FabricLink, AGoodbyeWaitsForTheFramesBeforeItAndIsAnswered) {
  say_on_connection({.type = FrameType::passed, .sequence = 2});
  say_on_connection({.type = FrameType::goodbye});
  say({.type = FrameType::data, .sequence = 1}, {}, 1);
  EXPECT_FALSE(end.reactor.drive_until([&] { return end.heard_count > 0; }, Deadline::in(5ms)));
  say({.type = FrameType::data, .sequence = 0}, {}, 0);
  ASSERT_TRUE(end.wait_for_heard(3));
  end.reactor.run([&] { EXPECT_EQ(end.heard[2].header.type, FrameType::goodbye); });
  RawFrameHeader answer;
  ASSERT_TRUE(receive_all(peers_connection.get(), answer, Deadline::in(5s)));
  EXPECT_EQ(decode(answer, kTransportKinds)->type, FrameType::heard);
  EXPECT_EQ(decode(answer, kTransportKinds)->sequence, 2U);
}

TEST_F(FabricLink, AFailureWaitsForNothing) {
  say_on_connection({.type = FrameType::passed, .sequence = 2});
  say_on_connection({.type = FrameType::failure});
  ASSERT_TRUE(end.wait_for_heard(1));
  end.reactor.run([&] { EXPECT_EQ(end.heard[0].header.type, FrameType::failure); });
}

TEST_F(FabricLink, IsFlushedWhenItsGoodbyeIsAnswered) {
  const auto flushed = [&] {
    bool is = false;
    end.reactor.run([&] { is = end.link->flushed(); });
    return is;
  };
  EXPECT_TRUE(flushed());
  end.reactor.run([&] { end.link->send({.type = FrameType::goodbye}, {}); });
  std::array<RawFrameHeader, 2> said;
  for (RawFrameHeader& one : said)
    ASSERT_TRUE(receive_all(peers_connection.get(), one, Deadline::in(5s)));
  EXPECT_EQ(decode(said[0], kTransportKinds)->type, FrameType::passed);
  EXPECT_EQ(decode(said[1], kTransportKinds)->type, FrameType::goodbye);
  EXPECT_FALSE(flushed());
  say_on_connection({.type = FrameType::heard, .sequence = 0});
  EXPECT_TRUE(end.wait_driving([&] { return end.link->flushed(); }));
}

TEST_F(FabricLink, EndsWithItsConnectionThoughTheFabricIsSilent) {
  peers_connection.reset();
  ASSERT_TRUE(end.wait_for_lost());
  EXPECT_EQ(end.losses[0].fault, Fault::peer_lost);
}

TEST_F(FabricLink, EndsWithTheFabricThoughItsConnectionIsSilent) {
  peers_port.reset();
  ASSERT_TRUE(end.wait_for_lost());
  EXPECT_EQ(end.losses[0].fault, Fault::peer_lost);
  EXPECT_EQ(end.losses[0].what, "the peer has closed its port");
}

// One end meets; the other is the test.
class FabricMeeting : public ::testing::Test {
 protected:
  FabricMeeting() {
    std::tie(own, peers) = test::tcp_pair();
    end.reactor.run([&] {
      end.fabric = std::make_unique<FabricDriver>(
          std::make_unique<test::LoopbackFabric>(std::make_shared<test::LoopbackNetwork>(), 1),
          end.reactor);
    });
  }
  Failure failure_of_meeting() {
    return meet_over_fabric(own.get(), *end.fabric, end.reactor, Deadline::in(10s), [] {}).error();
  }

  End end;
  FileDescriptor own, peers;
};

TEST_F(FabricMeeting, APeerThatGoesInsteadIsTold) {
  peers.reset();
  EXPECT_EQ(failure_of_meeting().fault, Fault::peer_lost);
}

TEST_F(FabricMeeting, AnAddressWithoutBoundsIsRefused) {
  const auto length = WireWriter().integer(~std::uint32_t{0}).bytes();
  ASSERT_TRUE(send_all(peers.get(), length, Deadline::in(5s)));
  EXPECT_THAT(failure_of_meeting().what, HasSubstr("too long"));
}

TEST(FabricPlugin, ThatIsMissingIsMisuseWithTheRemedy) {
  const auto failure = load_fabric("of_nobody", {"/nowhere"}).error();
  EXPECT_EQ(failure.fault, Fault::misuse);
  EXPECT_THAT(failure.what, HasSubstr("`scripts/setup`, then build again"));
}

}  // namespace
}  // namespace paceline::transport
