// A rank tells all others this of itself when it joins, through the store: where it is, how it is
// reached, and how it is set.
#pragma once

#include <string>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/processors.h"
#include "paceline/core/base/result.h"
#include "paceline/core/membership/store/rank_device.h"

namespace paceline::membership {

inline constexpr std::size_t kLongestProfile = 16 << 10;

struct Endpoint {
  std::string host;         // equal on ranks that can share memory
  std::string unix_name;    // empty: not offered
  std::string tcp;          // empty: not offered
  std::string fabric;       // of which library; empty: not offered
  bool tcp_carries = true;  // frames; else it is for proving who one is, and for the fabric
  std::string configuration;
  Processors processors;
  std::string profile;  // of rank 0: what all choose by
  RankDevice device = {};
};

// docs/wire.md.
std::vector<std::byte> encode(const Endpoint& endpoint);
// Trusts nothing that it reads. The failure (io) names `rank`, which sent it, and what is wrong.
Result<Endpoint> decode_endpoint(Bytes bytes, int rank);

// The host of this process: boot, network namespace (abstract unix sockets live in one) and user.
std::string host_key(const std::string& machine);

}  // namespace paceline::membership
