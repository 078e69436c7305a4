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
  // Whether another one is started in its place.
  virtual void died(int member, bool is_replaced) = 0;
  // A server that was started again is linked to all members, and has nothing yet.
  virtual void came(int member) = 0;
  // The server's own words (core/job/server_words.h); those that make no sense are none.
  virtual void reported(int member, Bytes report) = 0;
  virtual bool is_ready(int member) const = 0;  // it has all that it is to have
  // The map for all members, at most 64 KiB, if it has changed since the last call.
  virtual std::optional<std::vector<std::byte>> take_map() = 0;
};

// The chains of the job's tables (core/server/control/controller.h), in which servers report and
// members are told.
std::unique_ptr<ServerKeeper> keeper_of_chains(int ranks, int servers, int replicas);

}  // namespace paceline::launch
