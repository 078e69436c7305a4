// How two processes with a connection that has passed the handshake make a lane of a fabric.
#pragma once

#include <functional>
#include <memory>

#include "paceline/core/base/deadline.h"
#include "paceline/core/transport/fabric/fabric_driver.h"

namespace paceline::transport {

// Opens a port, exchanges addresses over the socket and returns when both sides have heard each
// other over the fabric: from then on either may end without harm to the other. Both sides call it.
// `between_looks` is called now and then while it waits; what it throws comes through. THREAD: any
// but the driver; the port is the driver's.
Result<std::unique_ptr<FabricPort>> meet_over_fabric(int socket, FabricDriver& driver,
                                                     Reactor& reactor, Deadline deadline,
                                                     const std::function<void()>& between_looks);

}  // namespace paceline::transport
