// A link over a connected TCP socket.
#pragma once

#include <memory>

#include "paceline/core/transport/link/link.h"
#include "paceline/core/transport/reactor/reactor.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::transport {

// `payload_checksum`: for links that leave the host. The socket has passed the handshake. `owner`
// and `reactor` outlive the link.
std::unique_ptr<Link> make_tcp_link(FileDescriptor socket, const StreamIdentity& identity,
                                    bool payload_checksum, LinkOwner& owner, Reactor& reactor);

}  // namespace paceline::transport
