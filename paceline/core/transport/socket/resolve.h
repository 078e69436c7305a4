// Names of hosts: from "node7:29400" to a numeric address.
#pragma once

#include <string>

#include "paceline/core/transport/socket/socket.h"

namespace paceline::transport {

// "host:port" with a name or a number; IPv4 before IPv6. The failure (misuse) names the host and
// what to do. COST: may ask the network.
Result<TcpAddress> resolve_tcp_address(const std::string& text);

// The same for an address that other hosts are to connect to, on the host that it names. Systems
// such as Debian let a host's own name mean 127.0.1.1 there: the way out decides then. The failure
// (misuse): there is none.
Result<TcpAddress> resolve_for_others(const std::string& text);

// Whether a socket of this host (in this network namespace) can have the numeric address.
bool is_own_address(const std::string& host);

// The address of this host that a packet to `host` would come from; "127.0.0.1" when there is no
// route. Sends nothing.
std::string source_address_to(const std::string& host);

// An address of this host that others probably reach, when nothing tells which way they come: that
// of our name, of the way out, of the first interface; loopback when there is nothing else.
std::string address_for_others();

}  // namespace paceline::transport
