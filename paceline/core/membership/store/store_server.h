// The store of a job: where ranks find each other, and where the launcher hears and tells why a run
// ends.
//
// A server on one TCP port, driven by its owner's Poller (the launcher's loop). Keys are set once
// and read by waiting for them. Every connection must pass the mutual handshake with the job's
// secret first (docs/wire.md).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "paceline/core/base/bytes.h"
#include "paceline/core/base/result.h"
#include "paceline/core/membership/handshake/secret.h"
#include "paceline/core/transport/reactor/poller.h"
#include "paceline/core/transport/socket/socket.h"

namespace paceline::membership {

// A rank told this before it gave up, e.g. {2, {peer_lost, "rank 1 died ...", {1}}}.
struct WorkerReport {
  int rank = -1;
  Failure failure;
};

struct StoreServerOptions {
  std::string host = "127.0.0.1";   // numeric address to listen on
  int port = 0;                     // 0: any free one
  transport::PortRange ports = {};  // from which port 0 takes one
  std::string job;                  // the job's id
  std::uint64_t generation = 1;
  int world_size = 1;  // ranks
  int servers = 0;     // numbered after the ranks
  Secret secret;
  // Called from within Poller::wait.
  std::function<void(const WorkerReport&)> on_report = {};
  std::function<void(int rank, std::uint64_t step)> on_saved = {};  // a checkpoint is committed
  std::function<void(int rank)> on_joined = {};                     // it has come to the store
  std::function<void(int rank)> on_left = {};                       // it has ended its Job
  // For servers that are replicated: what a server reports, and who is linked to all others.
  std::function<void(int member, Bytes report)> on_server_report = {};
  std::function<void(int member)> on_linked = {};
};

// THREAD: the poller's. THROWS Error (io) from the constructor: "cannot listen on 127.0.0.1:5000:
// Address already in use; ..."
class StoreServer {
 public:
  StoreServer(transport::Poller& poller, StoreServerOptions options);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  std::string address() const;  // "127.0.0.1:41234", for PACELINE_STORE

  // Whether any rank has ever joined; servers do not count.
  bool anyone_joined() const;

  // Tells every connected worker that the run has failed, and why: their operations in flight end
  // with this failure.
  void tell(const Failure& verdict);

  // These are StoreMachine's. REQUIRES: a map of at most 64 KiB.
  void tell_map(Bytes map);
  void expect(int member);
  void bury(int member);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace paceline::membership
