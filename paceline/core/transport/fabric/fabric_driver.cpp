#include "paceline/core/transport/fabric/fabric_driver.h"

#include <sys/epoll.h>

namespace paceline::transport {

FabricDriver::FabricDriver(std::unique_ptr<Fabric> fabric, Reactor& reactor)
    : fabric_(std::move(fabric)), reactor_(reactor) {
  reactor_.add(*this);
  // Edge-triggered: the descriptor stays readable until it is armed again, which is done before the
  // next sleep and not while the driver looks anyway.
  reactor_.poller().watch(fabric_->descriptor(), EPOLLIN | EPOLLET, [](std::uint32_t) {});
}

FabricDriver::~FabricDriver() {
  reactor_.poller().forget(fabric_->descriptor());
  reactor_.remove(*this);
}

bool FabricDriver::poll() {
  const bool moved = fabric_->progress();
  return moved || must_look_again_;
}

// The reactor looks once more between this and its sleep, and does not sleep if anything moved.
void FabricDriver::set_asleep(bool asleep) {
  must_look_again_ = asleep && !fabric_->arm();
}

}  // namespace paceline::transport
