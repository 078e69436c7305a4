#include "paceline/core/server/sparse/share_chain.h"

namespace paceline::server {

template class ReplicaChain<ShareState>;

}  // namespace paceline::server
