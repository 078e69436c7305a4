// ShareChain: one server's part in the chain of a share.
#pragma once

#include "paceline/core/server/control/replica_chain.h"
#include "paceline/core/server/sparse/share_state.h"

namespace paceline::server {

extern template class ReplicaChain<ShareState>;

using ShareChain = ReplicaChain<ShareState>;
using ShareChainPacket = ShareChain::Packet;

}  // namespace paceline::server
