#include "paceline/core/server/machine/range_chain.h"

namespace paceline::server {

template class ReplicaChain<RangeState>;

}  // namespace paceline::server
