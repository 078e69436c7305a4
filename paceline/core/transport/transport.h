// The door of transport: moves bytes between two ranks.
//
// A Link (link/link.h) is one ordered lane of frames (frame/frame.h) to one peer: over TCP
// (link/tcp_link.h); between ranks that share memory, in two processes or in two threads
// (shared/shared_link.h, shared_medium.h, inbox.h); or over a library that a plugin brings, such as
// UCX (fabric/fabric_link.h, fabric/fabric.h). The Reactor (reactor/reactor.h) drives them all.
// Nothing here knows of collectives, or of who is in the job: rooms above define the frames that
// they send, and tell the links of them (frame/frame_kinds.h). Start reading at link/link.h, then
// frame/frame.h, then reactor/reactor.h.
//
// Other rooms also use: descriptors that close themselves (file_descriptor.h), sockets and names of
// hosts (socket.h, resolve.h), the limit of open files (file_descriptor.h), integers on the wire
// (wire.h), control traffic over one socket (frame_connection.h), memory that processes map or that
// is one rank's own (shared_memory.h, private_memory.h, segment_table.h) and how much of it is left
// (available_memory.h), a peer's ordinary memory (process_memory.h), the use of memory that peers
// have lent (region_lease.h), what `paceline top` reads (status_page.h), and how lanes of a fabric
// come about (fabric_plugin.h, fabric_driver.h), and when to look at what has no descriptor
// (naps.h).
#pragma once

#include "paceline/core/transport/fabric/fabric_driver.h"
#include "paceline/core/transport/fabric/fabric_link.h"
#include "paceline/core/transport/link/link.h"
#include "paceline/core/transport/link/tcp_link.h"
#include "paceline/core/transport/reactor/poller.h"
#include "paceline/core/transport/reactor/reactor.h"
#include "paceline/core/transport/shared/shared_link.h"
#include "paceline/core/transport/socket/socket.h"
