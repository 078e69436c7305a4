// The door of transport: moves bytes between two ranks.
//
// A Link (link.h) is one ordered lane of frames (frame.h) to one peer: over TCP (tcp_link.h);
// between ranks that share memory, in two processes or in two threads (shared_link.h,
// shared_medium.h); or over a library that a plugin brings, such as UCX (fabric_link.h, fabric.h).
// The Reactor (reactor.h) drives them all. Nothing here knows of collectives, or of who is in the
// job. Start reading at link.h, then frame.h, then reactor.h.
#pragma once

#include "paceline/core/transport/fabric/fabric_driver.h"
#include "paceline/core/transport/fabric/fabric_link.h"
#include "paceline/core/transport/link/link.h"
#include "paceline/core/transport/link/tcp_link.h"
#include "paceline/core/transport/reactor/poller.h"
#include "paceline/core/transport/reactor/reactor.h"
#include "paceline/core/transport/shared/shared_link.h"
#include "paceline/core/transport/socket/socket.h"
