#include "paceline/core/membership/handshake/handshake.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <optional>
#include <thread>

#include "paceline/core/base/seed.h"
#include "paceline/core/transport/socket/socket.h"
#include "tests/core/membership/store_world.h"
#include "tests/core/membership/strangers.h"
#include "tests/support/seed.h"

namespace paceline::membership {
namespace {

using namespace std::chrono_literals;
using transport::FileDescriptor;

const Secret kSecret = Secret::random();
const Hello kServer{.rank = 4, .world_size = 8, .job = 77, .generation = 3};
const Hello kClient{
    .purpose = Purpose::peer, .rank = 6, .target = 4, .world_size = 8, .job = 77, .generation = 3};

// An acceptor with a thread of its own.
class Responder {
 public:
  explicit Responder(const Hello& own = kServer, Clock::duration limit = 5s) {
    auto listener = transport::listen_tcp({"127.0.0.1", 0}).value();
    address = transport::local_address(listener.get()).value();
    acceptor_.emplace(
        poller_, own, kSecret,
        [this](FileDescriptor socket, const Hello& hello) {
          sockets_.push_back(std::move(socket));
          who = hello;
          ++accepted;
        },
        limit);
    acceptor_->listen(std::move(listener));
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) poller_.wait(Deadline::never());
    });
  }
  ~Responder() {
    thread_.request_stop();
    poller_.wake();
    thread_.join();
  }
  FileDescriptor connect() { return transport::connect_tcp(address, Deadline::in(5s)).value(); }

  transport::TcpAddress address;
  std::atomic<int> accepted = 0;
  Hello who;  // of the last one; read it when `accepted` has risen

 private:
  transport::Poller poller_;
  std::optional<Acceptor> acceptor_;
  std::vector<FileDescriptor> sockets_;
  std::jthread thread_;
};

// Reads to the end: how many bytes came before the connection was closed.
std::size_t bytes_until_closed(int fd) {
  std::array<std::byte, 4096> buffer;
  std::size_t all = 0;
  const Deadline deadline = Deadline::in(10s);
  while (transport::wait_for(fd, POLLIN, deadline)) {
    const auto got = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (got <= 0) return all;
    all += static_cast<std::size_t>(got);
  }
  ADD_FAILURE() << "it stays open";
  return all;
}

TEST(Handshake, TheRightSecretPassesAndBothKnowWhoTheOtherIs) {
  Responder responder;
  const auto socket = responder.connect();
  const auto answer = introduce(socket.get(), kClient, kSecret, Deadline::in(5s));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer.value().rank, 4);
  EXPECT_EQ(answer.value().target, 6);
  test::wait_until([&] { return responder.accepted == 1; });
  EXPECT_EQ(responder.who, kClient);
}

TEST(Handshake, AWrongSecretJobGenerationOrTargetIsRefusedAtOnce) {
  Responder responder;
  Hello job = kClient, generation = kClient, target = kClient;
  job.job = 78;
  generation.generation = 2;
  target.target = 5;
  const Secret other = Secret::random();
  for (const auto& [hello, secret] : {std::pair(kClient, other), std::pair(job, kSecret),
                                      std::pair(generation, kSecret), std::pair(target, kSecret)}) {
    const auto socket = responder.connect();
    const auto begin = Clock::now();
    const auto answer = introduce(socket.get(), hello, secret, Deadline::in(5s));
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().fault, Fault::refused);
    EXPECT_NE(answer.error().what.find("authentication failed"), std::string::npos);
    EXPECT_LT(Clock::now() - begin, 1s);
  }
  EXPECT_EQ(responder.accepted, 0);
}

TEST(Handshake, ListenersAreHandedOverWithTheConnectionsThatWaitThere) {
  transport::Poller poller;
  int came = 0;
  Acceptor first(poller, kServer, kSecret, [](const FileDescriptor&, const Hello&) { FAIL(); });
  Acceptor second(poller, kServer, kSecret, [&](const FileDescriptor&, const Hello&) { ++came; });
  auto listener = transport::listen_tcp({"127.0.0.1", 0}).value();
  const auto socket =
      transport::connect_tcp(transport::local_address(listener.get()).value(), Deadline::in(5s));
  first.listen(std::move(listener));
  for (FileDescriptor& taken : first.take_listeners()) second.listen(std::move(taken));
  std::jthread visitor(
      [&] { EXPECT_TRUE(introduce(socket.value().get(), kClient, kSecret, Deadline::in(5s))); });
  for (const Deadline soon = Deadline::in(10s); came == 0 && !soon.passed();)
    poller.wait(Deadline::in(10ms));
  EXPECT_EQ(came, 1);
}

TEST(Handshake, AnotherVersionIsNamedAtBothEnds) {
  constexpr std::size_t kHello = 72;
  // The hello of a newer build: the same but for the version, which follows the magic number.
  std::array<std::byte, kHello> hello = {};
  {
    std::array<int, 2> ends;
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
    const FileDescriptor one(ends[0]), other(ends[1]);
    std::jthread ours([&] { (void)introduce(one.get(), kClient, kSecret, Deadline::in(5s)); });
    ASSERT_TRUE(transport::receive_all(other.get(), hello, Deadline::in(5s)));
    ::shutdown(other.get(), SHUT_RDWR);
  }
  hello[4] = std::byte{9};
  Responder responder;
  ::testing::internal::CaptureStderr();
  const FileDescriptor newer = responder.connect();
  ASSERT_TRUE(transport::send_all(newer.get(), hello, Deadline::in(5s)));
  std::array<std::byte, kHello> answer = {};
  ASSERT_TRUE(transport::receive_all(newer.get(), answer, Deadline::in(5s)));
  EXPECT_EQ(bytes_until_closed(newer.get()), 0U);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find(
                "rank 4: the other side speaks wire version 9, this build speaks 6"),
            std::string::npos);

  // The newer build reads our answer as we read its hello.
  answer[4] = std::byte{9};
  std::array<int, 2> ends;
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  FileDescriptor one(ends[0]), other(ends[1]);
  ASSERT_TRUE(transport::send_all(other.get(), answer, Deadline::in(5s)));
  ::shutdown(other.get(), SHUT_WR);
  const auto told = introduce(one.get(), kClient, kSecret, Deadline::in(5s));
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().fault, Fault::mismatch);
  EXPECT_NE(told.error().what.find("wire version 9, this build speaks 6"), std::string::npos);
}

TEST(Handshake, WhoeverAnswersWithoutTheSecretIsRefused) {
  SeededNumbers numbers(test::seed(1));
  for (int i = 0; i < 50; ++i) {
    std::array<int, 2> ends;
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    const FileDescriptor ours(ends[0]), theirs(ends[1]);
    std::array<std::byte, 104> answer;
    for (std::byte& b : answer) b = static_cast<std::byte>(numbers());
    ASSERT_TRUE(transport::send_all(theirs.get(), answer, Deadline::in(1s)));
    EXPECT_FALSE(introduce(ours.get(), kClient, kSecret, Deadline::in(1s)));
  }
}

TEST(Handshake, AReflectedHelloIsRefused) {
  std::array<int, 2> ends;
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  const FileDescriptor ours(ends[0]), theirs(ends[1]);
  std::jthread mirror([&] {
    std::array<std::byte, 72> hello;
    if (!transport::receive_all(theirs.get(), hello, Deadline::in(5s))) return;
    (void)transport::send_all(theirs.get(), hello, Deadline::in(5s));
    (void)transport::send_all(theirs.get(), Bytes(hello).first(32), Deadline::in(5s));
  });
  EXPECT_EQ(introduce(ours.get(), kClient, kSecret, Deadline::in(5s)).error().fault,
            Fault::refused);
}

// A responder's proof says that it is the responder's: a stranger who sends it back, as an
// initiator's proof over the same words, has proved nothing.
TEST(Handshake, AResponderIsNotPassedByItsOwnProof) {
  std::array<int, 2> ends;
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  const FileDescriptor speaker(ends[0]), theirs(ends[1]);
  std::array<std::byte, 72> hello;
  std::jthread initiator(
      [&] { (void)introduce(speaker.get(), kClient, Secret::random(), Deadline::in(50ms)); });
  ASSERT_TRUE(transport::receive_all(theirs.get(), hello, Deadline::in(5s)));
  initiator.join();

  Responder responder;
  const auto socket = responder.connect();
  std::array<std::byte, 72 + 32> answer;
  ASSERT_TRUE(transport::send_all(socket.get(), hello, Deadline::in(5s)));
  ASSERT_TRUE(transport::receive_all(socket.get(), answer, Deadline::in(5s)));
  ASSERT_TRUE(transport::send_all(socket.get(), Bytes(answer).subspan(72), Deadline::in(5s)));
  EXPECT_EQ(bytes_until_closed(socket.get()), 0U);
  EXPECT_EQ(responder.accepted, 0);
}

TEST(Handshake, GarbageHttpAndTlsAreClosedWithoutAWord) {
  Responder responder;
  SeededNumbers numbers(test::seed(2));
  std::string garbage(300, ' '), tls("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  for (char& c : garbage) c = static_cast<char>(numbers());
  tls.resize(517, 'r');
  for (const std::string& text :
       {std::string("GET / HTTP/1.1\r\nHost: localhost:1234\r\nUser-Agent: curl/7.88.1\r\nAccept: "
                    "*/*\r\n\r\n"),
        tls, garbage}) {
    const auto socket = responder.connect();
    ASSERT_TRUE(
        transport::send_all(socket.get(), std::as_bytes(std::span(text)), Deadline::in(5s)));
    EXPECT_EQ(bytes_until_closed(socket.get()), 0u);
  }
  EXPECT_EQ(responder.accepted, 0);
}

// A forwarder between an initiator and the responder, which keeps the initiator's messages.
std::vector<std::byte> recorded(Responder& responder) {
  std::array<int, 2> ends;
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  const FileDescriptor client(ends[0]), inner(ends[1]);
  const auto outer = responder.connect();
  std::vector<std::byte> said(72 + 32);
  std::jthread between([&] {
    const Deadline deadline = Deadline::in(5s);
    std::array<std::byte, 104> answer;
    EXPECT_TRUE(transport::receive_all(inner.get(), MutableBytes(said).first(72), deadline));
    EXPECT_TRUE(transport::send_all(outer.get(), Bytes(said).first(72), deadline));
    EXPECT_TRUE(transport::receive_all(outer.get(), answer, deadline));
    EXPECT_TRUE(transport::send_all(inner.get(), answer, deadline));
    EXPECT_TRUE(transport::receive_all(inner.get(), MutableBytes(said).subspan(72), deadline));
    EXPECT_TRUE(transport::send_all(outer.get(), Bytes(said).subspan(72), deadline));
  });
  EXPECT_TRUE(introduce(client.get(), kClient, kSecret, Deadline::in(5s)));
  between.join();
  return said;
}

TEST(Handshake, AReplayedRecordingIsRefused) {
  Responder responder;
  const auto said = recorded(responder);
  test::wait_until([&] { return responder.accepted == 1; });
  const auto socket = responder.connect();
  ASSERT_TRUE(transport::send_all(socket.get(), said, Deadline::in(5s)));
  EXPECT_LE(bytes_until_closed(socket.get()), 104u);
  EXPECT_EQ(responder.accepted, 1);
}

TEST(Handshake, AnyFlippedBitOfTheProofIsRefused) {
  Responder responder;
  for (std::size_t bit = 0; bit < 256; bit += 17) {
    std::array<int, 2> ends;
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    const FileDescriptor client(ends[0]), inner(ends[1]);
    const auto outer = responder.connect();
    std::jthread between([&] {
      const Deadline deadline = Deadline::in(5s);
      std::array<std::byte, 72> hello;
      std::array<std::byte, 104> answer;
      std::array<std::byte, 32> proof;
      if (!transport::receive_all(inner.get(), hello, deadline)) return;
      (void)transport::send_all(outer.get(), hello, deadline);
      if (!transport::receive_all(outer.get(), answer, deadline)) return;
      (void)transport::send_all(inner.get(), answer, deadline);
      if (!transport::receive_all(inner.get(), proof, deadline)) return;
      proof[bit / 8] ^= std::byte{1} << (bit % 8);
      (void)transport::send_all(outer.get(), proof, deadline);
    });
    ASSERT_TRUE(introduce(client.get(), kClient, kSecret, Deadline::in(5s)));
    between.join();
    EXPECT_EQ(bytes_until_closed(outer.get()), 0u);
  }
  EXPECT_EQ(responder.accepted, 0);
}

TEST(Handshake, SlowOnesAreDroppedAtTheLimitWhateverTheyTrickle) {
  Responder responder(kServer, 30ms);
  const auto begin = Clock::now();
  const auto silent = responder.connect(), trickling = responder.connect();
  ASSERT_TRUE(transport::send_all(trickling.get(), bytes_of('P'), Deadline::in(1s)));
  EXPECT_EQ(bytes_until_closed(silent.get()), 0u);
  EXPECT_EQ(bytes_until_closed(trickling.get()), 0u);
  EXPECT_GE(Clock::now() - begin, 20ms);
  EXPECT_LT(Clock::now() - begin, 5s);
  bool is_let_in = false;  // where this process is kept waiting, it is too slow itself
  for (const Deadline patience = Deadline::in(10s); !is_let_in && !patience.passed();) {
    const auto quick = responder.connect();
    is_let_in = introduce(quick.get(), kClient, kSecret, Deadline::in(5s)).has_value();
  }
  EXPECT_TRUE(is_let_in);
}

// There are more silent connections than places; an honest initiator still gets in, and quickly.
TEST(Handshake, SilentConnectionsDoNotKeepOthersOut) {
  Responder responder(kServer, 60s);
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(responder.connect());
  const auto begin = Clock::now();
  const auto socket = responder.connect();
  EXPECT_TRUE(introduce(socket.get(), kClient, kSecret, Deadline::in(5s)));
  EXPECT_LT(Clock::now() - begin, 1s);
  EXPECT_EQ(bytes_until_closed(silent.front().get()), 0u) << "the oldest gives way";
  pollfd youngest{silent.back().get(), POLLIN, 0};
  EXPECT_EQ(::poll(&youngest, 1, 0), 0) << "the youngest is among those that are kept";
}

// One initiator came before the flood and is slow to speak, another comes after it.
void expect_both_get_in(Responder& responder, const FileDescriptor& slow) {
  const auto quick = responder.connect();
  EXPECT_TRUE(introduce(quick.get(), kClient, kSecret, Deadline::in(5s)));
  EXPECT_TRUE(introduce(slow.get(), kClient, kSecret, Deadline::in(5s)));
}

TEST(Handshake, AFloodFromAnotherAddressCutsItsOwnConnections) {
  Responder responder(kServer, 60s);
  const auto slow = responder.connect();
  test::Strangers strangers(responder.address, {"127.0.0.66"});
  ::testing::internal::CaptureStderr();
  strangers.come(600);
  expect_both_get_in(responder, slow);
  EXPECT_EQ(bytes_until_closed(strangers.oldest()), 0u);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "paceline: rank 4 is crowded; unauthenticated connections closed to make room: 1, the "
            "last from 127.0.0.66\n")
      << "and not a line for each";
}

TEST(Handshake, AFloodFromManyAddressesCutsTheirOwnConnections) {
  Responder responder(kServer, 60s);
  const auto slow = responder.connect();
  std::vector<std::string> addresses;
  for (int i = 1; i <= 50; ++i) addresses.push_back(fmt::format("127.0.1.{}", i));
  test::Strangers strangers(responder.address, addresses);
  strangers.come(600);
  expect_both_get_in(responder, slow);
  EXPECT_EQ(bytes_until_closed(strangers.oldest()), 0u);
}

TEST(Handshake, WhoeverWaitsCanSayWhoCrowdedTheDoor) {
  transport::Poller poller;
  Acceptor acceptor(poller, kServer, kSecret, [](FileDescriptor, const Hello&) {});
  auto listener = transport::listen_tcp({"127.0.0.1", 0}).value();
  test::Strangers strangers(transport::local_address(listener.get()).value(), {"127.0.0.66"});
  acceptor.listen(std::move(listener));
  strangers.come(32 + kServer.world_size);
  while (poller.wait(Deadline::in(0s)) > 0) {
  }
  EXPECT_EQ(acceptor.crowd(), "");
  strangers.come(5);
  while (poller.wait(Deadline::in(0s)) > 0) {
  }
  EXPECT_EQ(acceptor.crowd(),
            "; unauthenticated connections closed to make room: 5, the last from 127.0.0.66");
}

// All ranks of one host come at once, and each waits for the others' first messages.
TEST(Handshake, TheRanksOfAJobHaveRoomAtOneAddress) {
  constexpr int kRanks = 200;
  Hello server = kServer, client = kClient;
  server.world_size = client.world_size = kRanks;
  Responder responder(server);
  std::vector<FileDescriptor> ranks;
  for (int rank = 0; rank < kRanks; ++rank) ranks.push_back(responder.connect());
  for (const FileDescriptor& rank : ranks)
    EXPECT_TRUE(introduce(rank.get(), client, kSecret, Deadline::in(5s)));
}

TEST(Handshake, AHelloSplitIntoBytesPasses) {
  Responder responder;
  std::array<int, 2> ends;
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  const FileDescriptor client(ends[0]), inner(ends[1]);
  const auto outer = responder.connect();
  std::jthread between([&] {
    const Deadline deadline = Deadline::in(5s);
    std::array<std::byte, 72> hello;
    std::array<std::byte, 104> answer;
    std::array<std::byte, 32> proof;
    if (!transport::receive_all(inner.get(), hello, deadline)) return;
    for (const std::byte& b : hello) (void)transport::send_all(outer.get(), bytes_of(b), deadline);
    if (!transport::receive_all(outer.get(), answer, deadline)) return;
    for (const std::byte& b : answer) (void)transport::send_all(inner.get(), bytes_of(b), deadline);
    if (!transport::receive_all(inner.get(), proof, deadline)) return;
    for (const std::byte& b : proof) (void)transport::send_all(outer.get(), bytes_of(b), deadline);
  });
  EXPECT_TRUE(introduce(client.get(), kClient, kSecret, Deadline::in(5s)));
  test::wait_until([&] { return responder.accepted == 1; });
}

TEST(Handshake, JobsHaveDifferentFingerprints) {
  EXPECT_EQ(job_fingerprint("a"), job_fingerprint("a"));
  EXPECT_NE(job_fingerprint("a"), job_fingerprint("b"));
  EXPECT_NE(job_fingerprint(""), job_fingerprint("b"));
}

}  // namespace
}  // namespace paceline::membership
