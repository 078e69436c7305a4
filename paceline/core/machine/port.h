// Port: where the actions of a machine become real, on sockets, on links or in virtual time.
#pragma once

#include "paceline/core/machine/machine.h"

namespace paceline::machine {

class Port {
 public:
  virtual ~Port() = default;
  virtual void send(int to, const Message& message) = 0;
  virtual void arm(std::uint32_t timer, Time at) = 0;
  virtual void drop(int peer, const Failure& why) = 0;
};

// Carries the actions out in their order.
void perform(const Actions& actions, Port& port);

}  // namespace paceline::machine
