// The socket options of every TCP connection between ranks.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>

namespace paceline::transport {

// No delay of short messages, nor behind much that is unsent; a dead or mute peer is noticed; and
// the congestion control that suits the link. Best effort: what the system refuses stays as it is.
// REQUIRES: fd is a connected TCP socket.
void set_tcp_options(int fd);

// Chooses the congestion control for a connection of that round trip. To be called with 0 before a
// socket connects or listens, too (accepted connections inherit from the listener): a connection
// that begins with bbr is paced by the kernel's timers for ever, whatever is chosen later.
void set_congestion_control(int fd, std::chrono::microseconds round_trip);

// The congestion control that a connection uses instead of the system's, if any: on a short round
// trip one that does not pace (docs/decisions/0017-short-links-are-not-paced.md).
std::optional<std::string_view> other_congestion_control(std::string_view of_system,
                                                         std::chrono::microseconds round_trip);

}  // namespace paceline::transport
