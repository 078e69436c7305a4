// Drives a fabric with the reactor: looks after it at each turn, and sleeps by its descriptor.
#pragma once

#include <functional>
#include <memory>

#include "paceline/core/base/deadline.h"
#include "paceline/core/transport/fabric/fabric.h"
#include "paceline/core/transport/reactor/reactor.h"

namespace paceline::transport {

// THREAD: reactor's driver only. Made before the links that stand on it, and ends after them.
class FabricDriver final : private Pollable {
 public:
  FabricDriver(std::unique_ptr<Fabric> fabric, Reactor& reactor);
  ~FabricDriver() override;
  FabricDriver(const FabricDriver&) = delete;
  FabricDriver& operator=(const FabricDriver&) = delete;

  Fabric& fabric() { return *fabric_; }

 private:
  bool poll() override;
  void set_asleep(bool asleep) override;

  std::unique_ptr<Fabric> fabric_;
  Reactor& reactor_;
  bool must_look_again_ = false;
};

// Two processes with a connection that has passed the handshake make a lane of a fabric. Opens a
// port, exchanges addresses over the socket and returns when both sides have heard each other over
// the fabric: from then on either may end without harm to the other. Both sides call it.
// `between_looks` is called now and then while it waits; what it throws comes through. THREAD: any
// but the driver; the port is the driver's.
Result<std::unique_ptr<FabricPort>> meet_over_fabric(int socket, FabricDriver& driver,
                                                     Reactor& reactor, Deadline deadline,
                                                     const std::function<void()>& between_looks);

}  // namespace paceline::transport
