// GossipPlace tells who begins exchanges in an asynchronous gossip: one side of a graph of two
// sides.
//
// Active ranks send to passive neighbours alone, and passive ones only answer, so nobody waits for
// a rank that waits. Source: Lian, Zhang, Zhang, Liu, Asynchronous Decentralized Parallel
// Stochastic Gradient Descent, ICML 2018.
#pragma once

#include <vector>

#include "paceline/core/base/result.h"

namespace paceline::coordination {

struct GossipPlace {
  bool is_active = false;
  std::vector<int> neighbours = {};  // all of the other side
  bool operator==(const GossipPlace&) const = default;
};

// The places of all ranks; `neighbours`: by rank, those with whom it mixes. The lowest rank of each
// connected part is active. A failure (misuse) names what is wrong: a rank that does not exist, is
// its own neighbour or has one that does not name it back; or two neighbours that a circle of odd
// length puts on one side, as in a ring of an odd number of ranks.
Result<std::vector<GossipPlace>> gossip_places(const std::vector<std::vector<int>>& neighbours);

}  // namespace paceline::coordination
