// WakingMachine wakes those who wait for what a machine does: it tells the reactor of each event.
#pragma once

#include "paceline/core/machine/machine.h"
#include "paceline/core/transport/reactor/reactor.h"

namespace paceline::server {

// `inside` and `reactor` must outlive it. THREAD: the driver.
class WakingMachine final : public machine::Machine {
 public:
  WakingMachine(machine::Machine& inside, transport::Reactor& reactor)
      : inside_(inside), reactor_(reactor) {}
  machine::Actions on_message(int from, const machine::Message& message,
                              machine::Time now) override {
    reactor_.note_completion();
    return inside_.on_message(from, message, now);
  }
  machine::Actions on_timer(std::uint32_t timer, machine::Time now) override {
    reactor_.note_completion();
    return inside_.on_timer(timer, now);
  }
  machine::Actions on_lost(int peer, machine::Time now) override {
    reactor_.note_completion();
    return inside_.on_lost(peer, now);
  }

 private:
  machine::Machine& inside_;
  transport::Reactor& reactor_;
};

}  // namespace paceline::server
