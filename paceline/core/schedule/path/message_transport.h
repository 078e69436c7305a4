// MessageTransport: how the messages of a gradient path travel, so that a path needs no
// communicator of its own kind: over groups of ranks, or through servers.
#pragma once

#include <memory>

#include "paceline/core/collective/group/communicator.h"
#include "paceline/core/compress/averaging/averaging.h"
#include "paceline/core/job/job.h"
#include "paceline/core/schedule/order/costs.h"

namespace paceline::schedule {

class MessageTransport {
 public:
  // Operations under way fail.
  virtual ~MessageTransport() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // Operations of one lane are carried out in the order of their starts, the same on all ranks;
  // those of different lanes side by side.
  virtual int lanes() const = 0;
  // Whether messages can go that way.
  virtual bool reaches(Path path) const = 0;
  // Starts the exchange, on a path that it reaches. Its buffers must stay valid until the Work is
  // done. Collective for all kinds: a rank that swaps with no other starts nothing. THROWS Error as
  // the communicator does.
  virtual Work start(int lane, Path path, const compress::Exchange& exchange) = 0;
  // Seconds so far in which operations of the first lane were under way.
  virtual double seconds_in_flight() const = 0;
};

// Each lane is a group of its own, split from `group`. Collective. THROWS Error as split() does.
inline constexpr int kLanes = 8;
std::unique_ptr<MessageTransport> transport_in_lanes(Communicator& group, int lanes = kLanes);

// It reaches both paths: on Path::server the job's servers form the sums (push_pull.h), with the
// bits of the group's; whatever else an averaging exchanges, and all else, travels in lanes.
// Collective. THROWS Error (misuse): the job has no servers, or `group` has not all of its ranks in
// their order.
std::unique_ptr<MessageTransport> transport_on_servers(Job& job, Communicator& group,
                                                       int lanes = kLanes);

}  // namespace paceline::schedule
