// ServerKeeper: keeps account of which servers have which part of the tables, where each part is on
// several of them, and so knows whether a job survives the death of one. Pure.
//
// Members are numbered as in a generation: servers after the ranks, those that are started again
// after all others.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "paceline/core/base/bytes.h"

namespace paceline::launch {

class ServerKeeper {
 public:
  virtual ~ServerKeeper() = default;
  // Whether another server that is ready has everything that this one has.
  virtual bool may_lose(int member) const = 0;
  virtual void died(int member) = 0;
  // A server that was started again is linked to all members, and has nothing yet.
  virtual void came(int member) = 0;
  // The server's own words (core/job/server_words.h); those that make no sense are none.
  virtual void reported(int member, Bytes report) = 0;
  virtual bool is_ready(int member) const = 0;  // it has all that it is to have
  // The map for all members, at most 64 KiB, if it has changed since the last call.
  virtual std::optional<std::vector<std::byte>> take_map() = 0;
};

// Chain c of `servers` chains lies on the servers c, c + 1, ... c + replicas - 1, modulo their
// number. A server that comes takes the place of the one that died first of those without a
// successor, and is ready when it has reported anything. Its map: for each chain a count u32, then
// that number of ready members, i32 each.
std::unique_ptr<ServerKeeper> counting_keeper(int ranks, int servers, int replicas);

}  // namespace paceline::launch
