// What every TCP connection between ranks is told.
#pragma once

namespace paceline::transport {

// No delay of short messages, nor behind much that is unsent; a dead or mute peer is noticed; and
// where both ends are on this host, the congestion control that suits it (docs/guide/networks.md).
// Best effort: what the system refuses stays as it is. REQUIRES: fd is a connected TCP socket.
void set_tcp_options(int fd);

}  // namespace paceline::transport
