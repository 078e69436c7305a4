#include "paceline/core/transport/socket/socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <thread>

#include "paceline/core/base/number.h"
#include "paceline/core/transport/socket/tcp_options.h"

namespace paceline::transport {
namespace {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Result<SocketAddress> resolve(const TcpAddress& address) {
  if (address.port < 0 || address.port > 65535) {
    return Failure{
        Fault::misuse, fmt::format("{} is no port: it must be 0 to 65535", address.port), {}};
  }
  SocketAddress out;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&out.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&out.storage);
  const auto port = htons(static_cast<std::uint16_t>(address.port));
  if (::inet_pton(AF_INET, address.host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = port;
    out.length = sizeof *v4;
  } else if (::inet_pton(AF_INET6, address.host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = port;
    out.length = sizeof *v6;
  } else {
    return Failure{Fault::misuse,
                   fmt::format("'{}' is no numeric address, such as 127.0.0.1", address.host),
                   {}};
  }
  return out;
}

SocketAddress abstract_address(const std::string& name) {
  SocketAddress out;
  auto* un = reinterpret_cast<sockaddr_un*>(&out.storage);
  un->sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof un->sun_path - 1);
  std::memcpy(un->sun_path + 1, name.data(), length);  // sun_path[0] == 0: abstract
  out.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return out;
}

Result<FileDescriptor> open_socket(int family, int type) {
  FileDescriptor fd(::socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) return io_failure("cannot open a socket (raise `ulimit -n`?)", errno);
  fd.close_in_children();
  if (family != AF_UNIX) set_congestion_control(fd.get(), {});
  return fd;
}

Result<TcpAddress> address_by(int (*call)(int, sockaddr*, socklen_t*), int fd,
                              std::string_view whose) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (call(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0)
    return io_failure(fmt::format("cannot read a socket's {} address", whose), errno);
  if (address.storage.ss_family == AF_UNIX) return TcpAddress{};
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (address.storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    ::inet_ntop(AF_INET, &v4->sin_addr, text.data(), text.size());
    return TcpAddress{text.data(), ntohs(v4->sin_port)};
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  ::inet_ntop(AF_INET6, &v6->sin6_addr, text.data(), text.size());
  return TcpAddress{text.data(), ntohs(v6->sin6_port)};
}

// A connection to a free port of this host can meet itself (simultaneous open): nobody listens
// there.
bool connected_to_itself(int fd) {
  auto own = local_address(fd), peer = peer_address(fd);
  return own && peer && *own == *peer;
}

Result<FileDescriptor> connect_until(int family, int type, const SocketAddress& address,
                                     const std::string& name, Deadline deadline) {
  for (;;) {
    auto fd = open_socket(family, type);
    if (!fd) return fd.error();
    int error = ::connect(fd->get(), address.get(), address.length) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      if (!wait_for(fd->get(), POLLOUT, deadline)) error = ETIMEDOUT;
      else {
        socklen_t length = sizeof error;
        ::getsockopt(fd->get(), SOL_SOCKET, SO_ERROR, &error, &length);
      }
    }
    if (error == 0 && family != AF_UNIX && connected_to_itself(fd->get())) error = ECONNREFUSED;
    if (error == 0) return fd;
    const bool try_again = error == ECONNREFUSED || error == EAGAIN || error == ECONNRESET;
    if (!try_again || deadline.passed()) {
      return Failure{try_again || error == ETIMEDOUT ? Fault::timed_out : Fault::io,
                     fmt::format("cannot connect to {}: {}", name, std::strerror(error)),
                     {}};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

Failure closed_by_peer() {
  return {Fault::peer_lost, "the connection was closed by the other side", {}};
}
Failure broken(int error) {
  return {Fault::peer_lost, fmt::format("the connection broke: {}", std::strerror(error)), {}};
}

}  // namespace

std::string to_string(const TcpAddress& address) {
  return address.host.find(':') == std::string::npos
             ? fmt::format("{}:{}", address.host, address.port)
             : fmt::format("[{}]:{}", address.host, address.port);
}

Result<TcpAddress> parse_tcp_address(const std::string& text) {
  const auto colon = text.rfind(':');
  TcpAddress address;
  const auto port = colon == std::string::npos
                        ? std::nullopt
                        : number_in<int>(std::string_view(text).substr(colon + 1));
  if (!port || *port < 0 || *port > 65535) {
    return Failure{
        Fault::misuse,
        fmt::format("'{}' is no address: write host:port, such as 127.0.0.1:29400", text),
        {}};
  }
  address.port = *port;
  address.host = text.substr(0, colon);
  if (address.host.size() >= 2 && address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  if (auto resolved = resolve(address); !resolved) return resolved.error();
  return address;
}

bool is_loopback(const TcpAddress& address) {
  return address.host.starts_with("127.") || address.host == "::1";
}

namespace {

// `error`: the system's, where it refuses the address.
Result<FileDescriptor> listen_at(const TcpAddress& address, int& error) {
  error = 0;
  auto where = resolve(address);
  if (!where) return where.error();
  auto fd = open_socket(where->get()->sa_family, SOCK_STREAM);
  if (!fd) return fd.error();
  const int one = 1;
  ::setsockopt(fd->get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (::bind(fd->get(), where->get(), where->length) == 0 && ::listen(fd->get(), 1024) == 0)
    return fd;
  error = errno;
  return Failure{
      Fault::io,
      fmt::format("cannot listen on {}: {}{}", to_string(address), std::strerror(error),
                  error == EADDRINUSE ? "; choose another port, or 0 for any free one" : ""),
      {}};
}

// Each process begins at another place, so that many that start at once do not all try the same.
Result<FileDescriptor> listen_within(const std::string& host, PortRange ports) {
  const int count = ports.last - ports.first + 1;
  const int begin = static_cast<int>(::getpid() % count);
  for (int i = 0; i < count; ++i) {
    int error = 0;
    auto one = listen_at({host, ports.first + (begin + i) % count}, error);
    if (error != EADDRINUSE) return one;
  }
  return Failure{
      Fault::io,
      fmt::format("cannot listen on {}: all ports from {} to {} are in use; give a wider "
                  "--port-range (PACELINE_PORT_RANGE): each process and the launcher "
                  "need one",
                  host, ports.first, ports.last),
      {}};
}

}  // namespace

std::optional<PortRange> parse_port_range(const std::string& text) {
  const auto colon = text.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const auto first = number_in<int>(std::string_view(text).substr(0, colon));
  const auto last = number_in<int>(std::string_view(text).substr(colon + 1));
  if (!first || !last || *first < 1 || *last > 65535 || *first > *last) return std::nullopt;
  return PortRange{*first, *last};
}

Result<FileDescriptor> listen_tcp(const TcpAddress& address, PortRange ports) {
  if (address.port == 0 && ports != PortRange()) return listen_within(address.host, ports);
  int error = 0;
  return listen_at(address, error);
}

Result<FileDescriptor> listen_unix(const std::string& abstract_name) {
  auto fd = open_socket(AF_UNIX, SOCK_SEQPACKET);
  if (!fd) return fd.error();
  const auto where = abstract_address(abstract_name);
  if (::bind(fd->get(), where.get(), where.length) != 0 || ::listen(fd->get(), 1024) != 0) {
    return io_failure("cannot listen on the unix socket @" + abstract_name, errno);
  }
  return fd;
}

Result<TcpAddress> local_address(int fd) {
  return address_by(::getsockname, fd, "own");
}

Result<TcpAddress> peer_address(int fd) {
  return address_by(::getpeername, fd, "peer's");
}

std::size_t bytes_on_the_way(int fd) {
  int count = 0;
  return ::ioctl(fd, SIOCOUTQ, &count) == 0 ? static_cast<std::size_t>(count) : 0;
}

std::chrono::milliseconds unanswered_for(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return {};
  // A host whose own cable is pulled has no route: nothing is on the way then, but its kernel asks
  // again and again whether it may send.
  if (info.tcpi_unacked == 0 && info.tcpi_probes == 0) return {};
  return std::chrono::milliseconds(info.tcpi_last_ack_recv);
}

Result<FileDescriptor> connect_tcp(const TcpAddress& address, Deadline deadline) {
  auto where = resolve(address);
  if (!where) return where.error();
  auto fd =
      connect_until(where->get()->sa_family, SOCK_STREAM, *where, to_string(address), deadline);
  if (fd) set_tcp_options(fd->get());
  return fd;
}

Result<FileDescriptor> connect_unix(const std::string& abstract_name, Deadline deadline) {
  return connect_until(AF_UNIX, SOCK_SEQPACKET, abstract_address(abstract_name),
                       "the unix socket @" + abstract_name, deadline);
}

Result<FileDescriptor> accept(int listener) {
  FileDescriptor fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.is_open()) {
    if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) return FileDescriptor();
    return io_failure("cannot accept a connection (raise `ulimit -n`?)", errno);
  }
  fd.close_in_children();
  ucred peer = {};
  socklen_t length = sizeof peer;
  int family = 0;
  socklen_t family_length = sizeof family;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_DOMAIN, &family, &family_length);
  if (family != AF_UNIX) {
    set_tcp_options(fd.get());
  } else if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 ||
             peer.uid != ::geteuid()) {
    return FileDescriptor();
  }
  return fd;
}

bool wait_for(int fd, short events, Deadline deadline) {
  for (;;) {
    pollfd waiting{.fd = fd, .events = events, .revents = 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left());
    const int ready = ::poll(&waiting, 1, static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return true;  // the next call on the descriptor tells
    if (deadline.passed()) return false;
  }
}

Result<> send_all(int fd, Bytes bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const auto sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno != EAGAIN && errno != EINTR) {
      return closed_by_peer();
    } else if (!wait_for(fd, POLLOUT, deadline)) {
      return Failure{Fault::timed_out, "the other side takes no bytes", {}};
    }
  }
  return Done{};
}

Result<> receive_all(int fd, MutableBytes into, Deadline deadline) {
  while (!into.empty()) {
    const auto got = ::recv(fd, into.data(), into.size(), 0);
    if (got > 0) {
      into = into.subspan(static_cast<std::size_t>(got));
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      return closed_by_peer();
    } else if (!wait_for(fd, POLLIN, deadline)) {
      return Failure{Fault::timed_out, "the other side sends nothing", {}};
    }
  }
  return Done{};
}

Result<> send_record(int fd, Bytes record, int attached) {
  iovec piece{.iov_base = const_cast<std::byte*>(record.data()), .iov_len = record.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (attached >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &attached, sizeof attached);
  }
  if (::sendmsg(fd, &message, MSG_NOSIGNAL) >= 0) return Done{};
  switch (const int error = errno) {
    case EAGAIN: return Failure{Fault::timed_out, "the unix socket is full", {}};
    case ETOOMANYREFS:
    case ENOBUFS:
    case ENOMEM:
      return Failure{Fault::timed_out,
                     fmt::format("the system passes no descriptor to another process now: {}; "
                                 "raise the limit of open files (`ulimit -n`)",
                                 std::strerror(error)),
                     {}};
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN: return closed_by_peer();
    default: return io_failure("cannot send on a unix socket", error);
  }
}

Result<Record> receive_record(int fd) {
  std::array<std::byte, 4096> buffer;
  iovec piece{.iov_base = buffer.data(), .iov_len = buffer.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr message = {};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  auto got = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  // That the peer closed without reading everything is told once, before what it had sent.
  if (got < 0 && errno == ECONNRESET) got = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Record{};
  if (got <= 0) return closed_by_peer();
  Record record;
  record.bytes.assign(buffer.begin(), buffer.begin() + got);
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
      // There may be room for two: this process must close all descriptors that came.
      for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
        int attached;
        std::memcpy(&attached, CMSG_DATA(header) + at, sizeof attached);
        record.attached = FileDescriptor(attached);
      }
    }
  }
  return record;
}

Result<std::size_t> SocketChannel::read(MutableBytes into) {
  const auto got = ::recv(fd_, into.data(), into.size(), 0);
  if (got > 0) return static_cast<std::size_t>(got);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::size_t{0};
  return got == 0 ? closed_by_peer() : broken(errno);
}

Result<std::size_t> SocketChannel::write(std::span<const Bytes> pieces) {
  std::array<iovec, 16> vectors;
  const std::size_t count = std::min(pieces.size(), vectors.size());
  for (std::size_t i = 0; i < count; ++i) {
    vectors[i] = {.iov_base = const_cast<std::byte*>(pieces[i].data()),
                  .iov_len = pieces[i].size()};
  }
  msghdr message = {};
  message.msg_iov = vectors.data();
  message.msg_iovlen = count;
  const auto sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (errno == EAGAIN || errno == EINTR) return std::size_t{0};
  return broken(errno);
}

}  // namespace paceline::transport
