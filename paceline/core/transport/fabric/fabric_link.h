// A link over a fabric (fabric.h), beside the TCP connection by which the two ranks have proved who
// they are.
//
// Frames go over the fabric. The connection carries what must arrive when the fabric is broken or
// its peer gone: failures and goodbyes, and its end is the peer's end (docs/wire.md).
#pragma once

#include <memory>

#include "paceline/core/transport/fabric/fabric.h"
#include "paceline/core/transport/link/link.h"
#include "paceline/core/transport/reactor/reactor.h"
#include "paceline/core/transport/socket/file_descriptor.h"

namespace paceline::transport {

// The port is connected; `payload_checksum`: for links that leave the host. The socket has passed
// the handshake. `owner`, `reactor` and the port's fabric outlive the link; a FabricDriver drives
// the fabric.
std::unique_ptr<Link> make_fabric_link(std::unique_ptr<FabricPort> port, FileDescriptor socket,
                                       const StreamIdentity& identity, bool payload_checksum,
                                       LinkOwner& owner, Reactor& reactor);

}  // namespace paceline::transport
