#include "paceline/core/transport/socket/tcp_options.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <string>

#include "paceline/core/transport/socket/socket.h"

namespace paceline::transport {
namespace {

using namespace std::chrono_literals;

int option(int fd, int level, int name) {
  int value = -1;
  socklen_t length = sizeof value;
  EXPECT_EQ(::getsockopt(fd, level, name, &value, &length), 0);
  return value;
}

std::string congestion_control(int fd) {
  std::array<char, 32> name = {};
  socklen_t length = name.size();
  EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &length), 0);
  return name.data();
}

TEST(TcpOptions, BothEndsOfAConnectionHaveThem) {
  const auto listener = listen_tcp({"127.0.0.1", 0}).value();
  const auto near = connect_tcp(local_address(listener.get()).value(), Deadline::in(10s)).value();
  ASSERT_TRUE(wait_for(listener.get(), POLLIN, Deadline::in(10s)));
  const auto far = accept(listener.get()).value();
  for (const int fd : {near.get(), far.get()}) {
    EXPECT_NE(option(fd, IPPROTO_TCP, TCP_NODELAY), 0);
    EXPECT_NE(option(fd, SOL_SOCKET, SO_KEEPALIVE), 0);
    // A peer that does not answer is lost after 20 s, as docs/errors.md says.
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 20000);
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 1);
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_KEEPINTVL), 1);
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_KEEPCNT), 2);
    EXPECT_EQ(option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT), 512 << 10);
    EXPECT_FALSE(congestion_control(fd).starts_with("bbr")) << "within a host nothing is paced";
  }
}

TEST(TcpOptions, NoConnectionBeginsPacedAndALongOneHasTheSystemsCongestionControl) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  const std::string of_system = congestion_control(socket.get());
  const std::string at_first =
      std::string(other_congestion_control(of_system, 0us).value_or(of_system));
  const auto listener = listen_tcp({"127.0.0.1", 0}).value();
  EXPECT_EQ(congestion_control(listener.get()), at_first);
  set_congestion_control(socket.get(), 0us);
  EXPECT_EQ(congestion_control(socket.get()), at_first);
  set_congestion_control(socket.get(), 2ms);
  EXPECT_EQ(congestion_control(socket.get()), of_system);
}

TEST(TcpOptions, OnlyShortLinksThatWouldBePacedLeaveTheSystemsCongestionControl) {
  for (const std::string paced : {"bbr", "bbr2"}) {
    EXPECT_EQ(other_congestion_control(paced, 0us), "reno");
    EXPECT_EQ(other_congestion_control(paced, 1ms), "reno");
    EXPECT_EQ(other_congestion_control(paced, 1001us), std::nullopt);
    EXPECT_EQ(other_congestion_control(paced, std::chrono::microseconds::max()), std::nullopt);
  }
  for (const std::string chosen : {"cubic", "dctcp", "reno", "vegas", ""})
    EXPECT_EQ(other_congestion_control(chosen, 0us), std::nullopt) << chosen;
}

}  // namespace
}  // namespace paceline::transport
