#include "paceline/core/membership/store/store_server.h"

#include <gtest/gtest.h>

#include "paceline/core/base/seed.h"
#include "paceline/core/membership/generation/generation_frames.h"
#include "paceline/core/membership/store/store_frames.h"
#include "paceline/core/membership/store/store_machine.h"
#include "paceline/core/transport/frame/wire.h"
#include "paceline/core/transport/socket/socket.h"
#include "tests/core/membership/store_world.h"
#include "tests/support/seed.h"

namespace paceline::membership {
namespace {

using namespace std::chrono_literals;
using test::bytes;
using test::soon;
using test::StoreWorld;
using test::text_of;
using transport::FrameType;
using transport::WireWriter;

// A worker that speaks frames of its own making.
class Rogue {
 public:
  Rogue(const StoreWorld& world, int rank)
      : socket_(transport::connect_tcp(transport::parse_tcp_address(world.address).value(), soon())
                    .value()),
        rank_(rank) {
    EXPECT_TRUE(introduce(socket_.get(), world.hello(rank), world.secret, soon()));
  }
  void send(FrameType type, Bytes payload) {
    const auto header = transport::encode(
        transport::FrameHeader{.type = type,
                               .job = job_fingerprint("test"),
                               .generation = 2,
                               .length = static_cast<std::uint32_t>(payload.size()),
                               .source = static_cast<std::uint32_t>(rank_)});
    raw(header);
    raw(payload);
  }
  void raw(Bytes bytes) { (void)transport::send_all(socket_.get(), bytes, Deadline::in(1s)); }
  bool is_dropped() {
    std::array<std::byte, 1 << 16> buffer;
    for (;;) {
      auto got = transport::receive_all(socket_.get(), MutableBytes(buffer).first(1), soon());
      if (!got) return got.error().fault == Fault::peer_lost;
    }
  }
  int fd() const { return socket_.get(); }

 private:
  transport::FileDescriptor socket_;
  int rank_;
};

std::vector<std::byte> set_of(const std::string& key, std::size_t value_bytes) {
  return WireWriter().text(key).raw(std::vector<std::byte>(value_bytes)).bytes();
}

TEST(StoreServer, MalformedFramesCloseThatConnectionOnly) {
  StoreWorld world;
  const auto good = world.client(0);
  SeededNumbers numbers(test::seed(1));
  const std::vector<std::pair<FrameType, std::vector<std::byte>>> bad = {
      {frame::kStoreSet, {}},
      {frame::kStoreSet, set_of("key/1", (64 << 10) + 1)},
      {frame::kStoreSet, set_of("key/0", 1)},
      {frame::kStoreSet, set_of("key/11", 1)},
      {frame::kStoreSet, set_of(std::string(2000, 'k') + "/1", 1)},
      {frame::kStoreGet, {}},
      {frame::kStoreGet, set_of("key", 1)},
      {frame::kReport, {}},
      {FrameType::data, {}},
      {frame::kMachine, {}},
      {frame::kVerdict, transport::encode(Failure{})},
      {frame::kStoreValue, {}},
  };
  for (const auto& [type, payload] : bad) {
    Rogue rogue(world, 1);
    rogue.send(type, payload);
    EXPECT_TRUE(rogue.is_dropped()) << static_cast<int>(type) << " of " << payload.size();
  }
  for (int i = 0; i < 20; ++i) {
    Rogue rogue(world, 1);
    std::vector<std::byte> garbage(64 + numbers.below(100));
    for (std::byte& b : garbage) b = static_cast<std::byte>(numbers());
    rogue.raw(garbage);
    EXPECT_TRUE(rogue.is_dropped());
  }
  good->set("fine/0", bytes("yes"));
  EXPECT_EQ(text_of(good->get("fine/0", soon())), "yes");
}

TEST(StoreServer, ARankWritesOnlyItsOwnKeysAndEachOnce) {
  StoreWorld world;
  const auto zero = world.client(0);
  zero->set("a/0", bytes("1"));
  EXPECT_EQ(text_of(zero->get("a/0", soon())), "1");
  for (const std::string key : {"a/1", "a0", "/00", "a/0"}) {
    const auto writer = key == "a/0" ? nullptr : world.client(1);
    StoreClient& client = writer ? *writer : *zero;
    if (key == "a/1") {
      client.set("a/0", bytes("2"));
    } else {
      client.set(key, bytes("2"));
    }
    EXPECT_EQ(client.get("a/0", soon()).error().fault, Fault::peer_lost) << key;
  }
  EXPECT_EQ(text_of(world.client(2)->get("a/0", soon())), "1");
}

TEST(StoreServer, AnotherWorldSizeIsObjectedToWithTheRemedy) {
  StoreWorld world(3);
  Hello hello = world.hello(1);
  hello.world_size = 5;
  const auto told = world.client(hello)->get("x", soon());
  EXPECT_EQ(told.error().fault, Fault::mismatch);
  EXPECT_EQ(told.error().what,
            "rank 1 takes the world to have 5 ranks, the launcher started 3: do not set "
            "PACELINE_WORLD_SIZE in a program or "
            "wrapper; choose it by `paceline run -n 5`");
  test::wait_until([&] { return world.reports().size() == 1; });
  EXPECT_EQ(world.reports()[0].rank, 1);
}

TEST(StoreServer, AWorldOfRanksAndServersIsTakenWholeAndRanksAloneCountAsJoined) {
  transport::Poller poller;
  StoreServer server(poller,
                     {.job = "test", .world_size = 2, .servers = 1, .secret = Secret::random()});
  EXPECT_FALSE(server.anyone_joined());
  StoreMachine machine(2, 1);
  EXPECT_TRUE(machine.on_message(0, StoreMachine::hello(2, 3, 1), {}).empty()) << "a server";
  const auto told = machine.on_message(1, StoreMachine::hello(0, 2, 1), {});
  ASSERT_EQ(told.size(), 2u);
  const auto verdict = transport::decode_failure(std::get<machine::Send>(told[0]).message.payload);
  EXPECT_EQ(
      verdict->what,
      "rank 0 takes the job to have 2 ranks and servers, the launcher started 2 and 1: do not "
      "set PACELINE_WORLD_SIZE or PACELINE_SERVERS in a program or wrapper; choose them by "
      "`paceline run -n` and --servers");
  const auto second = machine.on_message(2, StoreMachine::hello(2, 3, 1), {});
  ASSERT_EQ(second.size(), 1u);
  EXPECT_NE(transport::decode_failure(std::get<machine::Send>(second[0]).message.payload)
                ->what.find("two processes call themselves server 0"),
            std::string::npos);
}

TEST(StoreServer, ARankOutsideTheWorldIsObjectedTo) {
  StoreWorld world(3);
  for (const int rank : {3, -1, 1 << 30}) {
    const auto told = world.client(rank)->get("x", soon());
    EXPECT_EQ(told.error().fault, Fault::mismatch);
    EXPECT_NE(told.error().what.find("PACELINE_RANK must be 0..2"), std::string::npos);
  }
}

TEST(StoreServer, ASecondProcessOfOneRankIsObjectedToAndNotServed) {
  StoreWorld world;
  const auto first = world.client(1);
  const auto second = world.client(1);
  second->set("a/1", bytes("stolen"));
  const auto told = second->get("b/1", soon());
  EXPECT_EQ(told.error().fault, Fault::mismatch);
  EXPECT_NE(told.error().what.find("two processes call themselves rank 1"), std::string::npos);
  first->set("a/1", bytes("mine"));
  EXPECT_EQ(text_of(first->get("a/1", soon())), "mine")
      << "the second cannot take the first one's identity";
}

TEST(StoreServer, ASecondProcessOfOneRankIsNoReportOfTheFirst) {
  StoreWorld world;
  const auto first = world.client(1);
  first->set("a/1", bytes("mine"));
  EXPECT_EQ(world.client(1)->get("x", soon()).error().fault, Fault::mismatch);
  EXPECT_EQ(text_of(first->get("a/1", soon())), "mine");  // the second's coming was handled before
  EXPECT_TRUE(world.reports().empty()) << "the run goes on";
}

// Waits until the store serves a new process of rank 1, or says for good that it does not.
Failure last_word_to_another_process(StoreWorld& world) {
  const Deadline deadline = soon();
  Failure last;
  do {
    const auto again = world.client(1);
    again->set("b/1", bytes("1"));
    const auto got = again->get("b/1", soon());
    if (got) return {};
    last = got.error();
  } while (last.what.find("two processes") != std::string::npos && !deadline.passed());
  return last;
}

TEST(StoreServer, ARankWhoseProcessEndedMayComeAgainUnlessItHasPublishedSomething) {
  {
    StoreWorld world;
    world.client(1).reset();
    EXPECT_EQ(last_word_to_another_process(world).what, "");
  }
  StoreWorld world;
  auto first = world.client(1);
  first->set("a/1", bytes("1"));
  EXPECT_EQ(text_of(first->get("a/1", soon())), "1");
  first.reset();
  const Failure refused = last_word_to_another_process(world);
  EXPECT_EQ(refused.fault, Fault::mismatch);
  EXPECT_NE(refused.what.find("belongs to the next generation"), std::string::npos) << refused.what;
}

// Everything that a worker can make the store keep has a limit: values, their number, the length
// of a key and of a value, and questions without an answer.
TEST(StoreServer, ItsMemoryIsBoundedWhateverAWorkerAsks) {
  StoreWorld world;
  {
    Rogue greedy(world, 1);  // 70 MiB of values
    for (int i = 0; i < 1200; ++i)
      greedy.send(frame::kStoreSet, set_of("k" + std::to_string(i) + "/1", 60 << 10));
    EXPECT_TRUE(greedy.is_dropped());
  }
  {
    StoreWorld other;
    Rogue busy(other, 1);
    for (int i = 0; i <= 1 << 16; ++i)
      busy.send(frame::kStoreSet, set_of(std::to_string(i) + "/1", 0));
    EXPECT_TRUE(busy.is_dropped()) << "more than 65536 keys";
  }
  for (const auto& [key, value] : {std::pair(1025, 0), std::pair(10, (64 << 10) + 1)}) {
    StoreWorld other;
    Rogue wordy(other, 1);
    wordy.send(frame::kStoreSet, set_of(std::string(static_cast<std::size_t>(key) - 2, 'x') + "/1",
                                        static_cast<std::size_t>(value)));
    EXPECT_TRUE(wordy.is_dropped()) << key << " bytes of key, " << value << " of value";
  }
  {
    Rogue patient(world, 2);  // waits for one key, again and again
    const auto get = WireWriter().text("never").bytes();
    for (int i = 0; i < 2000; ++i) patient.send(frame::kStoreGet, get);
    EXPECT_TRUE(patient.is_dropped());
  }
  {
    Rogue patient(world, 2);  // the same of all ranks' keys, each answer to which is long
    const auto get = WireWriter().text("never/*").bytes();
    for (int i = 0; i < 50; ++i) patient.send(frame::kStoreGet, get);
    EXPECT_TRUE(patient.is_dropped());
  }
  const auto good = world.client(0);
  EXPECT_EQ(good->get("k0/1", soon()).value().size(), std::size_t{60} << 10);
}

TEST(StoreServer, AHelloForAnotherPurposeIsNotServed) {
  StoreWorld world;
  Hello hello = world.hello(1);
  hello.purpose = Purpose::peer;
  const auto client = world.client(hello);
  EXPECT_EQ(client->get("x", soon()).error().fault, Fault::peer_lost);
}

TEST(StoreServer, APortInUseIsNamed) {
  transport::Poller poller;
  const StoreWorld world;
  const auto where = transport::parse_tcp_address(world.address).value();
  try {
    const StoreServer second(poller, {.port = where.port, .job = "x", .secret = world.secret});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::io);
    EXPECT_NE(std::string(error.what())
                  .find("cannot listen on " + world.address + ": Address already in use"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace paceline::membership
