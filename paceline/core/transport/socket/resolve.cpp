#include "paceline/core/transport/socket/resolve.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <utility>

#include "paceline/core/base/processors.h"

namespace paceline::transport {
namespace {

using Found = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

// The addresses that getaddrinfo finds for a name; empty with its error code.
Found look_up(const std::string& host, int flags, int& error) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  // Port 9: some port, for connect() below.
  error = ::getaddrinfo(host.c_str(), "9", &hints, &found);
  return Found(error == 0 ? found : nullptr, &::freeaddrinfo);
}

std::string numeric(const sockaddr* address, socklen_t length) {
  std::array<char, NI_MAXHOST> text = {};
  ::getnameinfo(address, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return text.data();
}

}  // namespace

Result<TcpAddress> resolve_tcp_address(const std::string& text) {
  if (auto numbers = parse_tcp_address(text)) return *numbers;
  const auto colon = text.rfind(':');
  const std::string host = text.substr(0, colon);
  auto address = parse_tcp_address(
      "127.0.0.1" + (colon == std::string::npos ? std::string() : text.substr(colon)));
  if (!address || host.empty()) {
    return Failure{Fault::misuse,
                   fmt::format("'{}' is no address: write host:port, such as node7:29400", text),
                   {}};
  }
  int error = 0;
  const Found found = look_up(host, 0, error);
  if (!found) {
    return Failure{
        Fault::misuse,
        fmt::format(
            "the host name '{}' cannot be resolved: {}; put it into /etc/hosts, or give its number",
            host, ::gai_strerror(error)),
        {}};
  }
  const addrinfo* best = found.get();
  for (const addrinfo* one = best; one != nullptr; one = one->ai_next) {
    if (one->ai_family == AF_INET && best->ai_family != AF_INET) best = one;
  }
  address->host = numeric(best->ai_addr, best->ai_addrlen);
  return address;
}

Result<TcpAddress> resolve_for_others(const std::string& text) {
  auto found = resolve_tcp_address(text);
  const bool is_number = parse_tcp_address(text).has_value();
  const bool meant = is_number || text.starts_with("localhost");
  if (!found || meant || !is_loopback(*found)) return found;
  const std::string loopback = std::exchange(found->host, address_for_others());
  if (!is_loopback(*found)) return found;
  return Failure{Fault::misuse,
                 fmt::format("'{}' means {} here, where no other host can connect to; give the "
                             "number of an address that they reach",
                             text, loopback),
                 {}};
}

bool is_own_address(const std::string& host) {
  return listen_tcp({host, 0}).has_value();
}

std::string source_address_to(const std::string& host) {
  int error = 0;
  const Found found = look_up(host, AI_NUMERICHOST, error);
  if (!found) return "127.0.0.1";
  const FileDescriptor socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), found->ai_addr, found->ai_addrlen) != 0) return "127.0.0.1";
  const auto own = local_address(socket.get());
  return own ? own.value().host : "127.0.0.1";
}

std::string address_for_others() {
  const auto named = resolve_tcp_address(host_name() + ":0");
  if (named && !is_loopback(named.value()) && is_own_address(named.value().host))
    return named.value().host;
  // Documentation's own network: only the default route leads there.
  const auto out = source_address_to("192.0.2.1");
  if (!is_loopback({out, 0})) return out;
  std::string first = out;
  ifaddrs* all = nullptr;
  ::getifaddrs(&all);
  for (const ifaddrs* one = all; one != nullptr && first == out; one = one->ifa_next) {
    const bool usable = one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET &&
                        (one->ifa_flags & IFF_UP) != 0;
    if (usable && (one->ifa_flags & IFF_LOOPBACK) == 0)
      first = numeric(one->ifa_addr, sizeof(sockaddr_in));
  }
  ::freeifaddrs(all);
  return first;
}

}  // namespace paceline::transport
