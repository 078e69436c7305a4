// A link between two ranks that share memory: frames through rings, long payloads read in place,
// stores written in place.
#pragma once

#include <memory>

#include "paceline/core/transport/link/link.h"
#include "paceline/core/transport/reactor/reactor.h"
#include "paceline/core/transport/shared/inbox.h"
#include "paceline/core/transport/shared/shared_medium.h"

namespace paceline::transport {

// Below this a copy through the ring is cheaper than a reference and its acknowledgement.
inline constexpr std::size_t kShortestReference = 4096;

// `segments` tells which own memory the peer can see; it, `owner` and `reactor` outlive the link,
// and so does `inbox`: this process's, where it has one, which must be among the segments. REQUIRES
// with an inbox: two processes.
std::unique_ptr<Link> make_shared_link(std::unique_ptr<SharedMedium> medium,
                                       const StreamIdentity& identity, const SegmentTable& segments,
                                       LinkOwner& owner, Reactor& reactor, Inbox* inbox = nullptr);

}  // namespace paceline::transport
