// Chain: the servers that keep one range, in the order in which changes pass through them.
//
// The first takes what workers push, each hands it to the next, the last answers pulls (van Renesse
// and Schneider, OSDI 2004). A range belongs to the chain with the number of its first server. When
// servers end or come, the chain has a new generation; servers refuse frames of another one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/result.h"

namespace paceline::server {

inline constexpr int kMostReplicas = 3;

struct Chain {
  std::uint64_t generation = 1;
  std::vector<int> servers = {};   // member numbers; none: the ranges are lost
  std::optional<int> joiner = {};  // it gets the state from the last server, and is to follow it
  bool operator==(const Chain&) const = default;

  bool has(int member) const { return std::ranges::find(servers, member) != servers.end(); }
  bool is_head(int member) const { return !servers.empty() && servers.front() == member; }
  bool is_tail(int member) const { return !servers.empty() && servers.back() == member; }
  // The one before the member and the one behind it, with the joiner.
  std::optional<int> before(int member) const;
  std::optional<int> behind(int member) const;
};

// The first chains of a table on these servers: chain i begins with server i, and the next ones
// follow in a circle.
std::vector<Chain> first_chains(const std::vector<int>& servers, int replicas);

// The chains in bytes, as they travel to all members.
std::vector<std::byte> encode(const std::vector<Chain>& chains);
// A failure (io) says what is wrong with the bytes.
Result<std::vector<Chain>> parse_chains(Bytes bytes);

}  // namespace paceline::server
