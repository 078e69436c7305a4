#include "paceline/core/transport/socket/socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>

#include "paceline/core/transport/memory/shared_memory.h"
#include "paceline/core/transport/socket/file_descriptor.h"
#include "tests/core/transport/link_ends.h"
#include "tests/support/another_user.h"

namespace paceline::transport {
namespace {

using namespace std::chrono_literals;

Deadline soon() {
  return Deadline::in(10s);
}

std::pair<FileDescriptor, FileDescriptor> pair_of(int type) {
  std::array<int, 2> ends;
  EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(Socket, AddressesAreReadAndWritten) {
  for (const char* text : {"127.0.0.1:4000", "[::1]:4000", "0.0.0.0:0", "10.1.2.3:65535"}) {
    EXPECT_EQ(to_string(parse_tcp_address(text).value()), text);
  }
  EXPECT_TRUE(is_loopback(parse_tcp_address("127.9.9.9:1").value()));
  EXPECT_TRUE(is_loopback(parse_tcp_address("[::1]:1").value()));
  EXPECT_FALSE(is_loopback(parse_tcp_address("192.168.0.1:1").value()));
}

TEST(Socket, WhatIsNoAddressIsRefusedByName) {
  for (const std::string text :
       {"", ":", "127.0.0.1", "127.0.0.1:", ":80", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1",
        "127.0.0.1:80x", "256.0.0.1:80", "localhost:80", "[]:80", "127.0.0.1:99999999999"}) {
    const auto address = parse_tcp_address(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().fault, Fault::misuse);
    EXPECT_NE(address.error().what.find('\''), std::string::npos);
  }
  for (const int port : {-1, 65536, 70000}) {
    const auto listening = listen_tcp({"127.0.0.1", port});
    ASSERT_FALSE(listening);
    EXPECT_EQ(listening.error().what, std::to_string(port) + " is no port: it must be 0 to 65535");
  }
}

TEST(Socket, APortInUseIsNamedWithTheRemedy) {
  const auto listener = listen_tcp({"127.0.0.1", 0}).value();
  const auto where = local_address(listener.get()).value();
  EXPECT_EQ(listen_tcp(where).error().what,
            "cannot listen on " + to_string(where) +
                ": Address already in use; choose another port, or 0 for any free one");
}

TEST(Socket, ConnectingToNobodyEndsAtTheDeadlineAndNamesTheAddress) {
  TcpAddress free;
  {
    const auto listener = listen_tcp({"127.0.0.1", 0}).value();
    free = local_address(listener.get()).value();
  }
  const auto begin = Clock::now();
  const auto connected = connect_tcp(free, Deadline::in(50ms));
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().what,
            "cannot connect to " + to_string(free) + ": Connection refused");
  EXPECT_LT(Clock::now() - begin, 5s);
  EXPECT_FALSE(connect_unix("paceline.test.nobody", Deadline::in(10ms)));
}

TEST(Socket, AcceptGivesNothingWhenNobodyWaitsAndTheConnectionWhenSomebodyDoes) {
  const std::string name = "paceline.test." + std::to_string(::getpid());
  const auto listener = listen_unix(name).value();
  EXPECT_FALSE(accept(listener.get()).value().is_open());
  EXPECT_FALSE(listen_unix(name)) << "the name is taken";
  const auto one = connect_unix(name, soon()).value();
  ASSERT_TRUE(wait_for(listener.get(), POLLIN, soon()));
  const auto other = accept(listener.get()).value();
  EXPECT_EQ(peer_address(other.get()).value().host, "");
  ASSERT_TRUE(send_record(one.get(), bytes_of(42)));
  ASSERT_TRUE(wait_for(other.get(), POLLIN, soon()));
  EXPECT_EQ(receive_record(other.get()).value().bytes.size(), sizeof 42);
}

TEST(Socket, AUnixSocketLetsInNoProcessOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "NOT TESTED: only root can be another user";
  const std::string name = "paceline.test.other." + std::to_string(::getpid());
  const auto listener = listen_unix(name).value();
  {
    const test::AnotherUser stranger([&] {
      static auto kept = connect_unix(name, soon());
      if (!kept) ::_exit(1);
    });
    ASSERT_TRUE(wait_for(listener.get(), POLLIN, soon()));
    EXPECT_FALSE(accept(listener.get()).value().is_open());
  }
  const auto own = connect_unix(name, soon()).value();
  ASSERT_TRUE(wait_for(listener.get(), POLLIN, soon()));
  EXPECT_TRUE(accept(listener.get()).value().is_open());
}

TEST(Socket, WholeMessagesArriveAndTheirDeadlineHolds) {
  auto [one, other] = test::tcp_pair();
  std::array<std::byte, 100> sent, got;
  sent.fill(std::byte{7});
  ASSERT_TRUE(send_all(one.get(), sent, soon()));
  ASSERT_TRUE(receive_all(other.get(), got, soon()));
  EXPECT_EQ(sent, got);
  EXPECT_EQ(receive_all(other.get(), got, Deadline::in(5ms)).error().fault, Fault::timed_out);
  const std::vector<std::byte> much(64 << 20);
  EXPECT_EQ(send_all(one.get(), much, Deadline::in(5ms)).error().fault, Fault::timed_out);
  one.reset();
  std::vector<std::byte> rest(much.size());
  EXPECT_EQ(receive_all(other.get(), rest, soon()).error().fault, Fault::peer_lost);
}

TEST(Socket, RecordsKeepTheirBordersAndCarryADescriptor) {
  auto [one, other] = pair_of(SOCK_SEQPACKET);
  const auto memory = SharedMemory::create(4096).value();
  memory.bytes()[5] = std::byte{9};
  ASSERT_TRUE(send_record(one.get(), bytes_of(std::uint32_t{1})));
  ASSERT_TRUE(send_record(one.get(), bytes_of(std::uint64_t{2}), memory.fd()));
  const auto first = receive_record(other.get()).value();
  EXPECT_EQ(first.bytes.size(), 4u);
  EXPECT_FALSE(first.attached.is_open());
  auto second = receive_record(other.get()).value();
  EXPECT_EQ(second.bytes.size(), 8u);
  const auto same = SharedMemory::attach(std::move(second.attached), 4096).value();
  EXPECT_EQ(same.bytes()[5], std::byte{9});
  EXPECT_TRUE(receive_record(other.get()).value().bytes.empty());
  one.reset();
  EXPECT_EQ(receive_record(other.get()).error().fault, Fault::peer_lost);
}

TEST(Socket, RecordsOfWhoClosedWithoutReadingAllStillArrive) {
  auto [one, other] = pair_of(SOCK_SEQPACKET);
  const auto memory = SharedMemory::create(4096).value();
  ASSERT_TRUE(send_record(other.get(), bytes_of(1)));
  ASSERT_TRUE(send_record(one.get(), bytes_of(2), memory.fd()));
  one.reset();  // with a record unread
  EXPECT_TRUE(receive_record(other.get()).value().attached.is_open());
  EXPECT_EQ(receive_record(other.get()).error().fault, Fault::peer_lost);
}

TEST(Socket, ASecondDescriptorBesideARecordIsNotLeftOpen) {
  auto [one, other] = pair_of(SOCK_SEQPACKET);
  const std::size_t before = open_descriptors();
  char text = 'x';
  iovec piece{&text, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control = {};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(2 * sizeof(int));
  const std::array<int, 2> attached = {0, 1};
  std::memcpy(CMSG_DATA(header), attached.data(), sizeof attached);
  ASSERT_EQ(::sendmsg(one.get(), &message, 0), 1);
  EXPECT_EQ(receive_record(other.get()).value().bytes.size(), 1u);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Socket, AFullUnixSocketSaysSoAtOnce) {
  auto [one, other] = pair_of(SOCK_SEQPACKET);
  Result<> sent = Done{};
  for (int i = 0; i < 100000 && sent; ++i) sent = send_record(one.get(), bytes_of(i));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().fault, Fault::timed_out);
}

TEST(Socket, AChannelReadsAndWritesWithoutBlocking) {
  auto [one, other] = test::tcp_pair();
  SocketChannel out(one.get()), in(other.get());
  std::array<std::byte, 10> into;
  EXPECT_EQ(in.read(into).value(), 0u);
  const std::string hello = "hello", world = "world";
  const std::array<Bytes, 2> pieces = {std::as_bytes(std::span(hello)),
                                       std::as_bytes(std::span(world))};
  EXPECT_EQ(out.write(pieces).value(), 10u);
  ASSERT_TRUE(wait_for(other.get(), POLLIN, soon()));
  EXPECT_EQ(in.read(into).value(), 10u);
  EXPECT_EQ(std::memcmp(into.data(), "helloworld", 10), 0);
  const std::vector<std::byte> much(1 << 20);
  std::size_t written = 1;
  while (written > 0) written = out.write(std::array<Bytes, 1>{much}).value();
  other.reset();  // unread bytes: the kernel answers with a reset
  ASSERT_TRUE(wait_for(one.get(), POLLIN, soon()));
  const auto read = out.read(into);
  EXPECT_EQ(read.error().fault, Fault::peer_lost);
  EXPECT_EQ(read.error().what, "the connection broke: Connection reset by peer");
}

TEST(Socket, AnyPortIsOneOfTheRangeAndAFullRangeIsNamed) {
  int base = 0;  // two ports of which both are free
  {
    auto probe = listen_tcp({"127.0.0.1", 0}).value();
    base = local_address(probe.get()).value().port;
  }
  const PortRange one{base, base};
  auto first = listen_tcp({"127.0.0.1", 0}, one);
  ASSERT_TRUE(first) << first.error().what;
  EXPECT_EQ(local_address(first.value().get()).value().port, base);
  auto second = listen_tcp({"127.0.0.1", 0}, one);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().what.find(fmt::format("all ports from {} to {} are in use", base, base)),
            std::string::npos);
}

TEST(Socket, ARangeOfPortsIsTwoOfThemInOrder) {
  EXPECT_EQ(parse_port_range("20000:20100"), (PortRange{20000, 20100}));
  for (const char* wrong : {"", "20000", "0:5", "5:4", "1:70000", "a:b", "1:2:3"})
    EXPECT_FALSE(parse_port_range(wrong)) << wrong;
}

// The child lives on, as one that loads data does, until the test ends it.
TEST(Socket, AConnectionEndsWithItsProcessThoughAForkedChildLivesOn) {
  watch_forks();
  auto [one, other] = test::tcp_pair();
  const int watched = other.release();
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  one.reset();
  EXPECT_TRUE(wait_for(watched, POLLIN, Deadline::in(2s)));
  std::byte byte;
  EXPECT_EQ(::read(watched, &byte, 1), 0);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(watched);
}

}  // namespace
}  // namespace paceline::transport
