#include "paceline/core/transport/tcp_options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <string_view>

#include "paceline/core/transport/socket.h"

namespace paceline::transport {
namespace {

template <typename Value>
void set(int fd, int level, int option, const Value& value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

void notice_dead_peers(int fd) {
  // Also bounds how long a peer may take nothing (a full window): a process that is stopped for
  // some seconds must not be taken for dead.
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 20000u);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 2);
}

bool is_within_host(int fd) {
  auto own = local_address(fd), peer = peer_address(fd);
  return own && peer && own->host == peer->host;
}

// bbr spaces out what it sends, which costs a connection within a host half of its speed, and there
// is no link to be spared. Every process may set reno.
void send_without_pacing(int fd) {
  constexpr std::string_view kReno = "reno";
  ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kReno.data(), kReno.size());
}

// What the system has taken goes out in its order: a short frame would wait for megabytes that lie
// there unsent. So much keeps a link of 10 Gbit/s busy for some 400 us.
void keep_little_unsent(int fd) {
  set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 512 << 10);
}

}  // namespace

void set_tcp_options(int fd) {
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  notice_dead_peers(fd);
  keep_little_unsent(fd);
  if (is_within_host(fd)) send_without_pacing(fd);
}

}  // namespace paceline::transport
