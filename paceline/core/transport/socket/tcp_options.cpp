#include "paceline/core/transport/socket/tcp_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <string>

#include "paceline/core/transport/socket/file_descriptor.h"
#include "paceline/core/transport/socket/socket.h"

namespace paceline::transport {
namespace {

template <typename Value>
void set(int fd, int level, int option, const Value& value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

void notice_dead_peers(int fd) {
  // It also bounds how long a peer may take no bytes (a full window): a process that is stopped for
  // some seconds must not be taken for dead.
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 20000u);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 2);
}

// A round trip this short gives no usable estimate.
constexpr std::chrono::microseconds kShort{1000};

// The algorithm of a socket for which none was chosen.
std::string system_congestion_control() {
  const FileDescriptor fresh(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  std::array<char, 32> name = {};
  socklen_t length = name.size() - 1;
  ::getsockopt(fresh.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &length);
  return name.data();
}

// Returns the round trip of the connection's handshake, which a busy host may have been slow to
// answer: within a host it counts as nothing.
std::chrono::microseconds round_trip(int fd) {
  auto own = local_address(fd), peer = peer_address(fd);
  if (own && peer && own->host == peer->host) return {};
  tcp_info info = {};
  socklen_t length = sizeof info;
  const bool known =
      ::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 && info.tcpi_rtt > 0;
  return known ? std::chrono::microseconds(info.tcpi_rtt) : std::chrono::microseconds::max();
}

// The system sends accepted bytes in order, so a short frame would wait for megabytes that lie
// there unsent. This amount keeps a link of 10 Gbit/s busy for some 400 us.
void keep_little_unsent(int fd) {
  set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 512 << 10);
}

}  // namespace

void set_tcp_options(int fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  notice_dead_peers(fd);
  keep_little_unsent(fd);
  set_congestion_control(fd, round_trip(fd));
}

void set_congestion_control(int fd, std::chrono::microseconds round_trip) {
  const std::string of_system = system_congestion_control();
  if (!other_congestion_control(of_system, {})) return;  // nothing was set before it connected
  const std::string_view name = other_congestion_control(of_system, round_trip).value_or(of_system);
  ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), name.size());
}

std::optional<std::string_view> other_congestion_control(std::string_view of_system,
                                                         std::chrono::microseconds round_trip) {
  if (!of_system.starts_with("bbr") || round_trip > kShort) return std::nullopt;
  return "reno";  // the one that every process may set
}

}  // namespace paceline::transport
