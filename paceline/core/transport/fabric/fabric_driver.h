// Drives a fabric with the reactor: looks after it at each turn, and sleeps by its descriptor.
#pragma once

#include <memory>

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

}  // namespace paceline::transport
