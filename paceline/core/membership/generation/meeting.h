// The ranks of a job that another launcher started find the store in this way; it then lives in
// rank 0.
//
// On one host they meet at a unix socket that is named after the job and serves processes of the
// same user alone: rank 0 hands out its address and, when the user gave none, a secret of its own
// making. Between hosts the address comes as the launcher allows (Meeting), and only with a secret
// that the user has laid on every host.
#pragma once

#include <memory>

#include "paceline/core/membership/environment/environment.h"
#include "paceline/core/membership/store/store_server.h"
#include "paceline/core/transport/reactor/reactor.h"

namespace paceline::membership {

// The store in rank 0. It tells all ranks the failures that a rank reports while ranks still join,
// since there is no launcher to do so.
class HostedStore {
 public:
  virtual ~HostedStore() = default;
};

// Fills in environment.store and environment.secret; in rank 0 it starts the store, driven by
// `reactor`. nullptr in other ranks. REQUIRES environment.meeting.kind != launcher. THROWS Error:
// misuse (hosts without a secret, a name that cannot be resolved), io, timed_out (no rank 0 has
// come).
std::unique_ptr<HostedStore> meet(Environment& environment, transport::Reactor& reactor,
                                  Deadline deadline);

}  // namespace paceline::membership
